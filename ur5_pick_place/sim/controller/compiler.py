# SPDX-License-Identifier: Apache-2.0
"""A thread that compiles programs, so that a long one does not hold up the cycle."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

from ur5_pick_place.sim.controller.script.program import Program


class Compiler:
    """Compiles one program after the other; its thread ends with the process."""

    def __init__(self) -> None:
        self._jobs = queue.SimpleQueue[tuple[Callable[[], Program], 'Future[Program]']]()
        threading.Thread(target=self._run, name='urscript', daemon=True).start()

    def submit(self, compile_program: Callable[[], Program]) -> 'Future[Program]':
        """Return what will hold the program, or the error."""
        future: Future[Program] = Future()
        self._jobs.put((compile_program, future))
        return future

    def _run(self) -> None:
        while True:
            compile_program, future = self._jobs.get()
            try:
                future.set_result(compile_program())
            except BaseException as error:
                future.set_exception(error)
