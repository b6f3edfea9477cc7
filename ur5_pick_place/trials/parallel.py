# SPDX-License-Identifier: Apache-2.0
"""
Run independent trials on all cores or on a cluster; yield results in the order of the trials.

`concurrent.futures` is not used because its pool cannot tell which trial killed a worker, and
cannot end a running trial.

"""

import asyncio
import contextlib
import importlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.trials.processes import end_with_parent, how_ended
from ur5_pick_place.trials.records import driver_silent

_DEATHS = 2  # workers that one trial may kill
_END_TIME = 5.0  # [s] for a worker to close its cell before it is killed
_CONNECT_TIME = 30.0  # [s] for a scheduler to answer, and to have a worker

Item = TypeVar('Item')
Result = TypeVar('Result')
OpenWork = Callable[[], AbstractContextManager[Callable[[Item], Result]]]
"""Opens what a worker keeps between trials, and returns the function that runs one."""


@dataclass(frozen=True)
class Workers:
    """
    Where trials run.

    Attributes
    ----------
    jobs : int
        Processes on this machine; with one, trials run in this process.
    cluster : str
        Address of a Dask scheduler, whose workers replace `jobs`; empty for none.

    """

    jobs: int = 1
    cluster: str = ''


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def run_trials(
    open_work: OpenWork[Item, Result],
    items: Sequence[Item],
    lost: Callable[[Item, str], Result],
    workers: Workers = Workers(),
) -> Generator[Result, None, None]:
    """
    Run one trial for each item; yield the results in the order of the items.

    A trial whose worker dies runs again in a new one. Closing the iterator ends the workers.

    Parameters
    ----------
    open_work : callable
        Called once in each worker; on a cluster for each trial. With workers, it, the items and
        the results are pickled; `lost` is called in this process.
    items : sequence
    lost : callable
        Makes the result of an item that has killed its worker twice (on a cluster, as often as
        its scheduler allows), from the item and the cause.
    workers : Workers

    Raises
    ------
    InvalidInput
        The cluster cannot be used.
    RuntimeError
        A trial raised an exception in a worker; gives its traceback.

    """
    jobs = min(workers.jobs, len(items))
    if workers.cluster:
        yield from _on_cluster(workers.cluster, open_work, items, lost)
    elif jobs > 1:
        yield from _Pool(open_work, items, lost, jobs).results()
    else:
        with open_work() as work:
            yield from map(work, items)


class _Worker(Generic[Item, Result]):
    """
    A process that runs trials one after the other.

    Attributes
    ----------
    pipe : Connection
        Readable when the trial has ended, or the process.
    number : int
        Index of the item of its trial; -1 while idle.

    """

    def __init__(self, open_work: OpenWork[Item, Result]) -> None:
        context = multiprocessing.get_context('spawn')  # a fork would copy threads' locks
        self.pipe, theirs = context.Pipe()
        self.number = -1
        self._process = context.Process(target=_serve, args=(theirs, open_work), daemon=True)
        # Ctrl-C reaches the whole process group; workers are ended by their parent alone.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def begin(self, number: int, item: Item) -> None:
        """Begin the trial of an item."""
        self.number = number
        with contextlib.suppress(ConnectionError):  # a dead worker's pipe is readable
            self.pipe.send(item)

    def result(self) -> Result:
        """
        Return the result of the trial.

        Raises
        ------
        EOFError, ConnectionError
            The process has died.
        RuntimeError
            The trial raised an exception.

        """
        result, trace = self.pipe.recv()
        if trace:
            raise RuntimeError(f'a trial failed in its worker:\n{trace}')
        self.number = -1
        return result  # type: ignore[no-any-return]  # pipes are not generic

    def terminate(self) -> None:
        """Ask the process to end."""
        self._process.terminate()

    def end(self) -> str:
        """Wait until the process has ended, kill it if it does not; return how it ended."""
        self._process.join(_END_TIME)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        self.pipe.close()
        return how_ended(self._process.exitcode or 0)


def _serve(pipe: Any, open_work: OpenWork[Item, Result]) -> None:
    """Run the trials that the parent sends, until it ends this process."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _ignore)  # SIG_IGN would be inherited by the nodes of a cell
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    end_with_parent()
    with driver_silent(), open_work() as work:
        while True:
            try:
                item = pipe.recv()
            except EOFError:  # the parent has died
                return
            try:
                pipe.send((work(item), ''))
            except Exception:
                pipe.send((None, traceback.format_exc()))


def _leave(_number: int, _frame: object) -> None:
    raise SystemExit


def _ignore(_number: int, _frame: object) -> None:
    pass


class _Pool(Generic[Item, Result]):
    """Worker processes on this machine."""

    def __init__(
        self,
        open_work: OpenWork[Item, Result],
        items: Sequence[Item],
        lost: Callable[[Item, str], Result],
        jobs: int,
    ) -> None:
        self._open_work, self._items, self._lost, self._jobs = open_work, items, lost, jobs
        self._workers: list[_Worker[Item, Result]] = []
        self._waiting = deque(range(len(items)))
        self._done: dict[int, Result] = {}
        self._deaths: Counter[int] = Counter()

    def results(self) -> Iterator[Result]:
        """Yield the results in order; end the workers."""
        try:
            for number in range(len(self._items)):
                self._hand_out()
                while number not in self._done:
                    self._collect()
                    self._hand_out()
                yield self._done.pop(number)
        finally:
            for worker in self._workers:
                worker.terminate()
            for worker in self._workers:
                worker.end()

    def _hand_out(self) -> None:
        """Begin trials while there are both trials and idle or missing workers."""
        while self._waiting:
            worker = next((w for w in self._workers if w.number < 0), None)
            if worker is None and len(self._workers) < self._jobs:
                worker = _Worker(self._open_work)
                self._workers.append(worker)
            if worker is None:
                return
            number = self._waiting.popleft()
            worker.begin(number, self._items[number])

    def _collect(self) -> None:
        """Wait for a trial or a worker to end; keep results, requeue a dead worker's trial."""
        busy = {worker.pipe: worker for worker in self._workers if worker.number >= 0}
        for pipe in multiprocessing.connection.wait(busy):
            worker = busy[pipe]  # type: ignore[index]  # typeshed allows sockets too
            number = worker.number
            try:
                self._done[number] = worker.result()
            except (EOFError, ConnectionError):
                self._workers.remove(worker)
                self._on_death(number, worker.end())

    def _on_death(self, number: int, how: str) -> None:
        self._deaths[number] += 1
        if self._deaths[number] < _DEATHS:
            self._waiting.appendleft(number)
        else:
            why = f'not judged: its process {how}, {_DEATHS} times'
            self._done[number] = self._lost(self._items[number], why)


def _on_cluster(
    address: str,
    open_work: OpenWork[Item, Result],
    items: Sequence[Item],
    lost: Callable[[Item, str], Result],
) -> Iterator[Result]:
    """Yield the results of trials on the workers of a Dask scheduler."""
    try:
        distributed: Any = importlib.import_module('distributed')
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f'DASK={address}: requires dask.distributed ({error}); install it here and on the '
            "cluster's workers: python -m pip install distributed"
        ) from error
    try:
        client = distributed.Client(address, timeout=_CONNECT_TIME, set_as_default=False)
    except (OSError, ValueError, asyncio.TimeoutError) as error:
        raise InvalidInput(
            f'DASK={address}: {error}; must be the address of a running Dask scheduler, such as '
            'tcp://scheduler:8786'
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_CONNECT_TIME)
        except asyncio.TimeoutError as error:
            raise InvalidInput(
                f'DASK={address}: no worker within {_CONNECT_TIME:.0f} s; start some with '
                f'dask worker {address} --nthreads 1'
            ) from error
        # pure=False: equal trials are separate measurements, not one cached result.
        futures = [client.submit(_alone, open_work, item, pure=False) for item in items]
        try:
            for item, future in zip(items, futures, strict=True):
                try:
                    result = future.result()
                except distributed.scheduler.KilledWorker as error:
                    result = lost(item, f'not judged: it killed its workers: {error}')
                yield result
        finally:
            client.cancel(futures)


def _alone(open_work: OpenWork[Item, Result], item: Item) -> Result:
    """Run one trial on a worker of a cluster, which keeps nothing between trials."""
    with driver_silent(), open_work() as work:
        return work(item)
