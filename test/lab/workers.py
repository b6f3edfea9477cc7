# SPDX-License-Identifier: Apache-2.0
"""Run independent cases on dask.distributed; yield results in the order of the cases."""

import contextlib
import importlib
import logging
import os
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from lab.in_process import driver_silent
from ur5_pick_place.errors import InvalidInput

_CONNECT_TIME = 30.0  # [s] for a scheduler to answer, and to have a worker
_OF_A_CLUSTER = {
    'distributed.scheduler.allowed-failures': 1,  # a case may kill its worker once
    'distributed.scheduler.worker-saturation': 1.0,  # or the death would count for the next one
}

Case = TypeVar('Case')
Result = TypeVar('Result')
OpenWork = Callable[[], AbstractContextManager[Callable[[Case], Result]]]
"""Opens what a worker keeps between cases, and returns the function that runs one."""


@dataclass(frozen=True)
class Workers:
    """
    Where cases run: in `jobs` processes on this machine, or in this process if that is one.

    `cluster`: address of a Dask scheduler, whose workers replace `jobs`; empty for none.
    """

    jobs: int = 1
    cluster: str = ''


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def run_cases(
    open_work: OpenWork[Case, Result],
    cases: Sequence[Case],
    lost: Callable[[Case, str], Result],
    workers: Workers = Workers(),
) -> Generator[Result, None, None]:
    """
    Run all cases; yield the results in their order. Closing the iterator ends the local workers.

    `open_work` is called once in each worker; with workers, it, the cases and the results are
    pickled. `lost` makes the result of a case that has killed its worker twice (on a cluster, as
    often as its scheduler allows), from the case and the cause.

    Raises `InvalidInput`: dask.distributed is not installed, or the cluster cannot be used.
    """
    jobs = min(workers.jobs, len(cases))
    if jobs <= 1 and not workers.cluster:
        with open_work() as work:
            yield from map(work, cases)
        return
    dask = _distributed()
    with _connected(dask, workers.cluster, jobs) as client:
        yield from _in_order(dask, client, open_work, cases, lost)


def _in_order(
    dask: Any,
    client: Any,
    open_work: OpenWork[Case, Result],
    cases: Sequence[Case],
    lost: Callable[[Case, str], Result],
) -> Iterator[Result]:
    """Run all cases on the workers of a client, as `run_cases`."""
    run = uuid.uuid4().hex
    # pure=False: equal cases are separate measurements, not one cached result.
    futures = [client.submit(_run, run, open_work, case, pure=False) for case in cases]
    numbers = {future.key: number for number, future in enumerate(futures)}
    ended: dict[int, Result] = {}
    due = 0
    try:
        # Fetched at once: a result that dies with its worker would be computed again.
        for future in dask.as_completed(futures, loop=client.loop):
            number = numbers[future.key]
            try:
                ended[number] = future.result()
            except dask.scheduler.KilledWorker as error:
                why = f'not judged: it killed its workers: {error}'
                ended[number] = lost(cases[number], why)
            future.release()
            while due in ended:
                yield ended.pop(due)
                due += 1
        client.run(_close)
    finally:
        client.cancel(futures)


def _distributed() -> Any:
    try:
        return importlib.import_module('distributed')
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f'requires dask.distributed ({error}): make faults and make soak install it; --jobs 1 '
            'runs without it'
        ) from error


@contextlib.contextmanager
def _connected(dask: Any, address: str, jobs: int) -> Iterator[Any]:
    """Connect to a cluster, or to `jobs` worker processes on this machine."""
    if not address:
        config = importlib.import_module('dask').config
        with (
            config.set(_OF_A_CLUSTER),
            dask.LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                memory_limit=0,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            ) as cluster,
            dask.Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    try:
        client = dask.Client(address, timeout=_CONNECT_TIME, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InvalidInput(
            f'DASK={address}: {error}; must be the address of a running Dask scheduler, such as '
            'tcp://scheduler:8786'
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_CONNECT_TIME)
        except TimeoutError as error:
            raise InvalidInput(
                f'DASK={address}: no worker within {_CONNECT_TIME:.0f} s; start some with '
                f'PYTHONPATH=test .venv/bin/dask worker {address} --nthreads 1'
            ) from error
        yield client


class _Kept(ExitStack):
    """What this worker keeps between the cases of one run."""

    run = ''
    work: Callable[[Any], Any]


_kept = _Kept()


def _run(run: str, open_work: OpenWork[Case, Result], case: Case) -> Result:
    """Run one case in a worker."""
    if _kept.run != run:
        _close()
        _kept.enter_context(driver_silent())
        _kept.work = _kept.enter_context(open_work())
        _kept.run = run
    result: Result = _kept.work(case)
    return result


def _close() -> None:
    """Close what this worker keeps."""
    _kept.run = ''
    _kept.close()
