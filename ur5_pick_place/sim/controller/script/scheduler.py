# SPDX-License-Identifier: Apache-2.0
"""
The threads of a program, and the time that each may spend in a cycle.

A thread has one step of robot time a cycle. It runs until an instruction spends the rest of it or
waits, or until its share of computing is spent. Nothing interrupts it in between; a thread that
keeps computing in a critical section also holds the others up.
"""

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass

from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.controller.script.values import WORK, ScriptFault, Value, integer

Steps = Generator[None, None, Value]
Wait = Generator[None, None, None]

_COMPUTING = 400  # loops and calls of all threads a cycle
_LEAST_COMPUTING = 20
_MOST_THREADS = 32
_LONGEST_COMPUTING = 1.0  # [s] that a thread may compute without spending time
NO_TIME = 1e-9  # [s]
_HELPERS = ('spend', 'breathe', 'run', 'kill', 'join', 'halt', 'pause', 'enter_critical',
            'exit_critical')  # fmt: skip


class Halt(Exception):
    """The program ends itself."""


class _ThreadEnds(Exception):
    """The running thread has been killed."""


@dataclass(eq=False)
class Thread:
    """
    A thread: its code, the handle of who started it, what is left of the cycle [s].

    `behind`: cycles in which it has only computed.
    """

    handle: int
    parent: int
    code: Steps
    left: float = 0.0
    critical: int = 0
    behind: int = 0
    alive: bool = True

    def close(self) -> None:
        self.alive = False
        with suppress(RuntimeError, RecursionError):  # too deep: left to the garbage collector
            self.code.close()


class Scheduler:
    """Runs the threads of a program; the main one has handle 0."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._handles = 0
        self._computing = 0
        self.threads: list[Thread] = []
        self.cycle = 0
        self.current: Thread  # that `step` runs
        self.helpers = {f'h_{name}': getattr(self, f'_{name}') for name in _HELPERS}

    @property
    def now(self) -> float:
        """Time since the start [s], whatever the time scale."""
        return self.cycle * self._robot.step_time

    def start(self, code: Steps) -> None:
        self.threads.append(Thread(0, -1, code))

    def step(self) -> bool:
        """Run every thread for a cycle; return whether the main thread goes on."""
        self.cycle += 1
        share = max(_COMPUTING // max(1, len(self.threads)), _LEAST_COMPUTING)
        longest = _LONGEST_COMPUTING / self._robot.step_time
        for thread in self.threads:  # which grows while they run
            if not thread.alive:
                continue
            self.current, self._computing = thread, share
            thread.left, WORK[0] = self._robot.step_time, 0  # not what the ports have computed
            try:
                next(thread.code)
            except (StopIteration, _ThreadEnds):
                thread.alive = False
                if thread.handle == 0:
                    return False
                continue
            thread.behind = thread.behind + 1 if self._computing <= 0 else 0
            if thread.behind > longest:
                raise ScriptFault('runtime is too much behind: a loop that never waits')
            if self._computing <= 0 and thread.critical:
                break
        self.threads = [thread for thread in self.threads if thread.alive]
        return True

    def close(self) -> None:
        for thread in self.threads:
            thread.close()
        self.threads = []

    def take(self, need: float) -> float:
        """Spend up to `need` [s] of robot time; return how much of it this cycle has."""
        scale = self._robot.time_scale
        thread = self.current
        if scale <= 0.0:
            thread.left = 0.0
            return 0.0
        spent = min(need, thread.left * scale)
        thread.left -= spent / scale
        return spent

    def rest(self) -> Wait:
        """Wait for the next cycle if this one is spent."""
        if self.current.left < NO_TIME:
            yield

    # what generated code calls

    def _spend(self) -> bool:
        self._computing -= 1 + WORK[0]
        WORK[0] = 0
        return self._computing <= 0

    def _breathe(self) -> Wait:
        if self._spend():
            yield

    def _run(self, code: Steps) -> int:
        if sum(thread.alive for thread in self.threads) >= _MOST_THREADS:
            raise ScriptFault(f'too many threads: at most {_MOST_THREADS} run at once')
        self._handles += 1
        self.threads.append(Thread(self._handles, self.current.handle, code))
        return self._handles

    def _kill(self, handle: Value) -> None:
        wanted = integer(handle)
        if wanted == 0:
            return
        ending = {wanted}
        for thread in self.threads:  # children come after their parents
            if thread.handle in ending or thread.parent in ending:
                ending.add(thread.handle)
                thread.alive = False
                if thread is not self.current:
                    thread.close()
        if not self.current.alive:
            raise _ThreadEnds

    def _join(self, handle: Value) -> Wait:
        wanted = integer(handle)
        if wanted == self.current.handle and wanted:
            raise ScriptFault('a thread cannot wait for its own end')
        while wanted and any(t.handle == wanted and t.alive for t in self.threads):
            yield

    def _halt(self) -> None:
        raise Halt

    def _pause(self) -> Wait:
        self._robot.pause()
        yield

    def _enter_critical(self) -> None:
        self.current.critical += 1

    def _exit_critical(self) -> None:
        self.current.critical = max(0, self.current.critical - 1)
