# SPDX-License-Identifier: Apache-2.0
"""A recorded run as a self-contained HTML page: no scripts, links or other files."""

import base64
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ur5_pick_place.errors import MissingPackage
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.report.motion import Motion
from ur5_pick_place.report.plots import plots
from ur5_pick_place.report.runs import RecordedRun
from ur5_pick_place.report.time_shares import FLOOR, SHARES
from ur5_pick_place.task.plan_report import COLUMNS

Run = Mapping[str, Any]

_TEMPLATE = 'page.html'
_PICTURES = (  # file, type, what it shows
    ('cell.png', 'png', 'the cell with the cube at its highest, and the path of the TCP'),
    ('cycle.gif', 'gif', 'the cycle as an animation'),
)
_NEAREST_HIGH = (
    'tcp_speed',
    'elbow_speed',
    'joint_velocity',
    'joint_acceleration',
    'joint_jerk',
    'torque',
)
_NEAREST_LOW = ('joint_margin',)
_SIMULATED = 'Times are simulated, counted from the start of the cell.'
_RECORDED = "Times are those of the robot's clock, counted from the first message."


def page(folder: Path, name: str, runs: Sequence[RecordedRun], notes: Sequence[str]) -> str:
    """
    Return the page.

    `folder`: the demo's pictures in it are embedded. `name`: of the recording. `notes`: about the
    recording.

    Raises `MissingPackage`: Jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise MissingPackage(
            f'it needs the Python package Jinja2 ({error}): pip install Jinja2'
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True
    )
    text: str = environment.get_template(_TEMPLATE).render(
        title=f'Pick and place, recorded in {name}',
        about_time=_RECORDED if any('outcome' in run.result for run in runs) else _SIMULATED,
        notes=notes,
        runs=[_section(run.told, run.motion) for run in runs],
        columns=COLUMNS,
        shares=SHARES,
        remark_text=remark_text,
        pictures=_pictures(folder, runs[0].result['method']),
    )
    return text


def _section(run: Run, motion: Motion | None) -> dict[str, Any]:
    stages = run['stages']
    begin = min((s['begin_s'] for s in stages), default=0.0)
    span = max((s['begin_s'] + s['duration_s'] for s in stages), default=1.0) - begin
    drawn = plots(run, motion) if motion is not None else ()
    return {
        **run,
        'outcome': run.get('outcome') or ('placed' if run['success'] else 'failed'),
        'facts': list(facts(run, motion)),
        'is_demo': 'outcome' not in run,
        'has_shares': bool(run['cycle_time_s']) and run.get(FLOOR) is not None,
        'timeline': sorted([*stages, *run['remarks']], key=_time),
        'begin': begin,
        'span': max(span, 1e-3),
        'nearest': set(_nearest(run['plan'])),
        'plots': [
            {'title': plot.title, 'caption': plot.caption, 'data': _encoded(_png(plot.figure))}
            for plot in drawn
        ],
    }


# -- key values --------------------------------------------------------------------------------


def facts(run: Run, motion: Motion | None) -> Iterator[tuple[str, str]]:
    """Yield names and values of the figures of a run, as of `RecordedRun`."""
    if 'placement_error_m' in run:
        yield 'placement error', _error(run, 'placement')
        yield 'placement error without grip offset (caused by the arm)', _error(run, 'in_hand')
    yield 'cycle time', _number(run['cycle_time_s'], 's')
    if 'planning_time_s' in run:
        yield 'lower bound of the cycle time', _number(run.get(FLOOR), 's')
        yield 'planning time (wall)', _number(run['planning_time_s'], 's')
    speed = _number(run['max_tcp_speed_m_s'], 'm/s')
    if motion is None or not motion.has_tcp:
        yield 'max TCP speed', speed
        return
    yield 'max TCP speed', f'{speed} of {motion.max_speed:.2f} m/s'
    yield 'joint closest to its speed limit', _fastest(motion)
    yield 'max path deviation of the TCP', _farthest(motion)


def _fastest(motion: Motion) -> str:
    peaks = np.abs(motion.qd).max(axis=0)
    j = int((peaks / motion.max_velocity).argmax())
    return f'{JOINT_NAMES[j]}: {peaks[j]:.2f} of {motion.max_velocity[j]:.2f} rad/s'


def _farthest(motion: Motion) -> str:
    known = motion.deviation[np.isfinite(motion.deviation)]
    return f'{1e3 * known.max():.2f} mm' if known.size else 'unknown'


def _error(run: Run, what: str) -> str:
    miss, turn = run[f'{what}_error_m'], run[f'{what}_error_rad']
    if miss is None or turn is None:
        return 'unknown'
    return f'{1e3 * miss:.2f} mm and {math.degrees(turn):.2f} deg'


def _number(value: float | None, unit: str) -> str:
    return 'unknown' if value is None else f'{value:.2f} {unit}'


# -- tables ------------------------------------------------------------------------------------


def _time(row: Mapping[str, Any]) -> float:
    """Return when a stage or a remark began [s]."""
    return float(row['begin_s'] if 'begin_s' in row else row['time_s'])


def remark_text(remark: Mapping[str, Any]) -> str:
    """Return what happened, where, and the reason."""
    stage, text = remark.get('stage'), remark['text']
    where = f' at stage {stage!r}' if stage and repr(stage) not in text else ''
    return f'{remark["what"]}{where}: {text}'.rstrip(': ')


def _nearest(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    """Yield row and column of the values closest to their limits."""
    if not rows:
        return
    for names, choose in ((_NEAREST_HIGH, max), (_NEAREST_LOW, min)):
        for name in names:
            values = [row[name] for row in rows]
            yield values.index(choose(values)), name


# -- pictures ----------------------------------------------------------------------------------


def _pictures(folder: Path, method: str) -> list[dict[str, str]]:
    return [
        {
            'data': _encoded((folder / name).read_bytes()),
            'kind': kind,
            'what': what,
            'caption': f'{what.capitalize()} ({method}).',
        }
        for name, kind, what in _PICTURES
        if (folder / name).exists()
    ]


def _encoded(picture: bytes) -> str:
    return base64.b64encode(picture).decode('ascii')


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format='png', dpi=110)
    return file.getvalue()
