# SPDX-License-Identifier: Apache-2.0
"""Plots of a recorded run: over the robot's time with stages as bands, and in space."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Figure

from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.report.motion import Motion
from ur5_pick_place.task import events

matplotlib.rcdefaults()  # not a user's own, such as text by a LaTeX that is not there

Run = Mapping[str, Any]

_LABELLED = 0.012  # fraction of the total time from which a stage gets its number
_WARNING, _STOP = 'tab:orange', 'tab:red'
_MEASURED, _REFERENCE, _LIMIT = 'tab:blue', 'tab:orange', 'black'


_TITLES = [name.removesuffix('_joint').replace('_', ' ') for name in JOINT_NAMES]


@dataclass(frozen=True)
class Plot:
    """A figure with title and caption."""

    title: str
    caption: str
    figure: Figure


def plots(run: Run, motion: Motion) -> Iterator[Plot]:
    """
    Yield the plots of a run.

    `run`: `RecordedRun.told`. `motion`: motion of the same run.
    """
    yield Plot(
        'Joints',
        'Measured positions; the wide pale lines are the reference of the controller. Above the '
        'plots are the stages; dotted lines are remarks, red ones stops.',
        _over_time(run, motion, (_draw_positions,)),
    )
    yield Plot(
        'Joint speeds',
        'Measured; dashed lines are the limits of the run.',
        _over_time(run, motion, (_draw_velocities,)),
    )
    has_reference = bool(np.isfinite(motion.q_reference).any())
    if has_reference and not motion.has_tcp:
        yield Plot(
            'Errors',
            'Measured minus reference of each joint, including servo lag.',
            _over_time(run, motion, (_draw_error,)),
        )
    if not motion.has_tcp:
        return
    yield Plot(
        'TCP speed',
        'Computed from measured joints; the dashed line is the limit of the run.',
        _over_time(run, motion, (_draw_tcp_speed,)),
    )
    if has_reference:
        yield Plot(
            'Errors',
            'Top: measured minus reference of each joint, including servo lag. Bottom: distance '
            'of the TCP from the path of the reference, without lag.',
            _over_time(run, motion, (_draw_error, _draw_deviation)),
        )
    yield Plot(
        'Path of the TCP',
        'In base_link, at the base of the arm: x forward, y left, z up.',
        _in_space(run, motion),
    )


def joints_figure(run: Run, motion: Motion) -> Figure:
    """Plot the joints, measured and of the reference, and the difference."""
    return _over_time(run, motion, (_draw_positions, _draw_error))


def _over_time(
    run: Run, motion: Motion, draws: tuple[Callable[[Axes, Motion], None], ...]
) -> Figure:
    """Draw curves below each other, with bands for stages and lines for remarks."""
    figure = Figure(figsize=(10, 0.6 + 2.9 * len(draws)), layout='constrained')
    t = motion.t
    for i, (axes, draw) in enumerate(
        zip(figure.subplots(len(draws), sharex=True, squeeze=False)[:, 0], draws, strict=True)
    ):
        draw(axes, motion)
        axes.set_xlim(t[0], t[-1])
        axes.grid(alpha=0.3)
        axes.ticklabel_format(useOffset=False)
        _mark_stages(axes, run, is_labelled=not i)
        for remark in run['remarks']:
            colour = _STOP if events.STOPPED in remark['what'] else _WARNING
            axes.axvline(remark['time_s'], color=colour, lw=1.5, ls=':')
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc='center left', bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    axes.set_xlabel('time of the robot [s]')
    return figure


def _mark_stages(axes: Axes, run: Run, is_labelled: bool) -> None:
    """Shade every other stage and write numbers and names of the longer ones above."""
    low, high = axes.get_xlim()
    for number, stage in enumerate(run['stages'], 1):
        begin, end = stage['begin_s'], stage['begin_s'] + stage['duration_s']
        if number % 2:
            axes.axvspan(begin, end, color='grey', alpha=0.13, lw=0)
        middle = (max(begin, low) + min(end, high)) / 2
        if is_labelled and end - begin > _LABELLED * (high - low) and low < middle < high:
            axes.annotate(
                f'{number} {stage["stage"]}',
                (middle, 1.01),
                xycoords=('data', 'axes fraction'),
                rotation=30,
                fontsize=8,
                color='dimgrey',
            )


def _draw_positions(axes: Axes, motion: Motion) -> None:
    for wanted, measured in zip(
        axes.plot(motion.t, np.degrees(motion.q_reference), lw=4.0, alpha=0.3),
        axes.plot(motion.t, np.degrees(motion.q), lw=1.2, label=_TITLES),
        strict=True,
    ):
        measured.set_color(wanted.get_color())
    axes.set_ylabel('position, reference wide [deg]')


def _draw_velocities(axes: Axes, motion: Motion) -> None:
    axes.plot(motion.t, motion.qd, lw=1.2, label=_TITLES)
    for i, limit in enumerate(np.unique(motion.max_velocity[np.isfinite(motion.max_velocity)])):
        for sign in (1, -1):
            label = 'limit' if not i and sign > 0 else None
            axes.axhline(sign * limit, color=_LIMIT, lw=1, ls='--', label=label)
    axes.set_ylabel('speed [rad/s]')


def _draw_tcp_speed(axes: Axes, motion: Motion) -> None:
    axes.plot(motion.t, motion.tcp_speed, _MEASURED, lw=1.2, label='TCP')
    axes.axhline(motion.max_speed, color=_LIMIT, lw=1, ls='--', label='limit')
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel('speed [m/s]')


def _draw_error(axes: Axes, motion: Motion) -> None:
    axes.plot(motion.t, np.degrees(motion.error), lw=1.2, label=_TITLES)
    axes.set_ylabel('joint error [deg]')


def _draw_deviation(axes: Axes, motion: Motion) -> None:
    axes.plot(motion.t, 1e3 * motion.deviation, _MEASURED, lw=1.2)
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel('path deviation [mm]')


def _in_space(run: Run, motion: Motion) -> Figure:
    figure = Figure(figsize=(10, 4.8), layout='constrained')
    space = figure.add_subplot(1, 2, 1, projection='3d')
    above = figure.add_subplot(1, 2, 2)
    for axes, dimensions in ((space, 3), (above, 2)):
        for p, colour, width, label in (
            (motion.p_tcp_reference, _REFERENCE, 4.0, 'reference'),
            (motion.p_tcp, _MEASURED, 1.2, 'measured'),
        ):
            alpha = 0.4 if width > 2 else 1.0
            axes.plot(*p.T[:dimensions], color=colour, lw=width, alpha=alpha, label=label)
        _mark_places(axes, run, motion, dimensions)
        axes.set_xlabel('x [m]')
        axes.set_ylabel('y [m]')
        axes.set_aspect('equal', adjustable='datalim')
    space.set_zlabel('z [m]')
    space.set_title('3D view', fontsize=10)
    above.set_title('top view', fontsize=10)
    above.grid(alpha=0.3)
    figure.legend(*above.get_legend_handles_labels(), loc='outside lower center', ncols=6)
    return figure


def _mark_places(axes: Axes, run: Run, motion: Motion, dimensions: int) -> None:
    """Mark begin and end of the recording, and start and target of the cube."""
    for label, p, marker, size in (
        ('begin', motion.p_tcp[0], 'o', 9),
        ('end', motion.p_tcp[-1], 'x', 6),
    ):
        axes.plot(*p[:dimensions, None], marker, color='black', ms=size, mfc='none', label=label)
    for name, colour in (('start', 'tab:red'), ('target', 'tab:green')):
        if spot := run.get(name):
            p = np.array([spot['x'], spot['y'], 0.0])
            square = (4, 0, 45.0 + spot['yaw'])
            axes.plot(
                *p[:dimensions, None], marker=square, ls='', color=colour, ms=11, label=name
            )
