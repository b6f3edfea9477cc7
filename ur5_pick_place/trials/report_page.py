# SPDX-License-Identifier: Apache-2.0
"""A recorded run as a self-contained HTML page: no scripts, links or other files."""

import base64
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.task import events
from ur5_pick_place.task.plan_report import COLUMNS, cells
from ur5_pick_place.trials.report_motion import Motion
from ur5_pick_place.trials.report_plots import plots
from ur5_pick_place.trials.time_shares import FLOOR, SHARES, shares_text

Run = Mapping[str, Any]

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

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { --good: #1a7f37; --bad: #b3261e; --warning: #9a6700; --line: #d0d7de; --soft: #f3f5f7;
  --bar: #4c78a8; }
* { box-sizing: border-box; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
body { font: 15px/1.45 system-ui, sans-serif; color: #1f2328; background: #fff;
  max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { border-top: 3px solid var(--line); padding-top: 1rem; }
h3 { margin: 1.6rem 0 .4rem; break-after: avoid; }
.good { color: var(--good); } .bad { color: var(--bad); } .warning { color: var(--warning); }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .6rem;
  margin: 0; }
.facts div { background: var(--soft); border-radius: .4rem; padding: .5rem .7rem; }
dt { font-size: .8rem; color: #57606a; } dd { margin: 0; font-weight: 600; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; }
th, td { text-align: left; padding: .2rem .5rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
tr { break-inside: avoid; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
.nearest { font-weight: 700; background: #fff3c4; }
.time { width: 30%; min-width: 7rem; }
.time i { display: block; height: .8rem; margin-top: .25rem; background: var(--bar);
  min-width: 2px; }
figure { margin: .5rem 0; break-inside: avoid; }
figure img { max-width: 100%; height: auto; }
figcaption, .note { font-size: .85rem; color: #57606a; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-end; }
.pictures figure { flex: 1 1 18rem; }
@media print { body { max-width: none; padding: 0; font-size: 12px; }
  .wide { overflow: visible; } }
</style>
</head>
<body>
<h1>$title</h1>
<p class="note">Times are simulated, counted from the start of the cell.</p>
$body
</body>
</html>
""")


def page(folder: Path, runs: Sequence[Run], motions: Mapping[str, Motion]) -> str:
    """
    Return the page.

    Parameters
    ----------
    folder : Path
        Results folder of the demo; its pictures are embedded.
    runs : sequence of mapping
        As `report.read_runs` returns them.
    motions : mapping of str to Motion
        By method; runs without joints are missing.

    """
    sections = [_section(run, motions.get(run['method'])) for run in runs]
    pictures = _pictures(folder, runs[0]['method'])
    title = escape(f'Pick and place, recorded in {folder.resolve().name}')
    return _PAGE.substitute(title=title, body='\n'.join([*sections[:1], pictures, *sections[1:]]))


def _section(run: Run, motion: Motion | None) -> str:
    mood, outcome = ('good', 'placed') if run['success'] else ('bad', 'failed')
    parts = [f'<h2>{escape(run["method"])}: <span class="{mood}">{outcome}</span></h2>']
    if run['reason']:
        parts.append(f'<p class="bad">{escape(run["reason"])}</p>')
    parts += [_facts(run, motion), _shares(run), _timeline(run), _plan(run['plan'])]
    if motion is None:
        parts.append('<p class="note">No joints were recorded in this run: no plots.</p>')
    else:
        parts += [
            f'<h3>{plot.title}</h3>\n{_figure(_png(plot.figure), "png", plot.title, plot.caption)}'
            for plot in plots(run, motion)
        ]
    return '<section>\n' + '\n'.join(parts) + '\n</section>'


# -- figures in numbers ------------------------------------------------------------------------


def _facts(run: Run, motion: Motion | None) -> str:
    speed = number(run['max_tcp_speed_m_s'], 'm/s')
    facts = [
        ('placement error', apart(run, 'placement')),
        ('in-hand error', apart(run, 'in_hand')),
        ('cycle time', number(run['cycle_time_s'], 's')),
        ('floor of the cycle time', number(run.get(FLOOR), 's')),
        ('planning time (wall)', number(run['planning_time_s'], 's')),
    ]
    if motion is None:
        facts.append(('max TCP speed', speed))
    else:
        facts += [
            ('max TCP speed', f'{speed} of {motion.max_speed:.2f} m/s'),
            ('joint closest to its speed limit', _fastest(motion)),
            ('max path deviation of the TCP', _farthest(motion)),
        ]
    cards = (f'<div><dt>{name}</dt><dd>{escape(value)}</dd></div>' for name, value in facts)
    return '<dl class="facts">\n' + '\n'.join(cards) + '\n</dl>'


def _fastest(motion: Motion) -> str:
    peaks = np.abs(motion.trace.qd).max(axis=0)
    j = int((peaks / motion.max_velocity).argmax())
    return f'{JOINT_NAMES[j]}: {peaks[j]:.2f} of {motion.max_velocity[j]:.2f} rad/s'


def _farthest(motion: Motion) -> str:
    known = motion.deviation[np.isfinite(motion.deviation)]
    return f'{1e3 * known.max():.2f} mm' if known.size else 'unknown'


def apart(run: Run, what: str) -> str:
    """Return the `placement` or `in_hand` error as text."""
    miss, turn = run[f'{what}_error_m'], run[f'{what}_error_rad']
    if miss is None or turn is None:
        return 'unknown'
    return f'{1e3 * miss:.2f} mm and {math.degrees(turn):.2f} deg'


def number(value: float | None, unit: str) -> str:
    """Return a quantity as text; None is unknown."""
    return 'unknown' if value is None else f'{value:.2f} {unit}'


# -- where the time goes -----------------------------------------------------------------------


def _shares(run: Run) -> str:
    """Return the parts of the cycle time as a table, with a bar each."""
    rows, begin, cycle = [], 0.0, run['cycle_time_s']
    if cycle and run.get(FLOOR) is not None:
        for name, (title, meaning) in SHARES.items():
            rows.append(
                f'<tr><td>{title}</td><td class="number">{run[name]:.2f}</td>'
                f'{_bar(begin, run[name], cycle)}<td>{meaning}</td></tr>'
            )
            begin += run[name]
    heading = _row(('part', 'time [s]', '', 'what it is'), 'th', (1,))
    table = f'\n{_table(heading, rows)}' if rows else ''
    return f'<h3>Where the time goes</h3>\n<p class="note">{shares_text(run)}</p>{table}'


def _bar(begin: float, duration: float, span: float) -> str:
    left, width = (100.0 * x / max(span, 1e-3) for x in (begin, duration))
    style = f'margin-left:{left:.2f}%;width:{max(width, 0.0):.2f}%'
    return f'<td class="time"><i style="{style}"></i></td>'


# -- timeline ---------------------------------------------------------------------------------


def _timeline(run: Run) -> str:
    """Return stages and remarks as a table in order of time, with a bar per stage."""
    stages, remarks = run['stages'], run['remarks']
    if not stages and not remarks:
        return '<h3>Timeline</h3>\n<p class="note">No stage was started.</p>'
    begin = min((s['begin_s'] for s in stages), default=0.0)
    span = max((s['begin_s'] + s['duration_s'] for s in stages), default=1.0) - begin
    rows = [
        (stage['begin_s'], _stage_row(i, stage, begin, span))
        for i, stage in enumerate(stages, 1)
    ]
    rows += [(remark['time_s'], _remark_row(remark)) for remark in remarks]
    rows.sort(key=lambda row: row[0])
    heading = _row(('', 'stage', 'start [s]', 'duration [s]', '', 'remark'), 'th', (0, 2, 3))
    return f'<h3>Timeline</h3>\n{_table(heading, [row for _, row in rows])}'


def _stage_row(i: int, stage: Mapping[str, Any], begin: float, span: float) -> str:
    return (
        f'<tr><td class="number">{i}</td><td>{escape(stage["stage"])}</td>'
        f'<td class="number">{stage["begin_s"]:.2f}</td>'
        f'<td class="number">{stage["duration_s"]:.2f}</td>'
        f'{_bar(stage["begin_s"] - begin, stage["duration_s"], span)}'
        f'<td>{escape(stage["remark"])}</td></tr>'
    )


def _remark_row(remark: Mapping[str, Any]) -> str:
    mood = 'bad' if remark['what'] == events.STOPPED else 'warning'
    where = f' at stage {remark["stage"]}' if remark.get('stage') else ''
    text = f'{remark["what"]}{where}: {remark["text"]}'.rstrip(': ')
    return (
        f'<tr class="{mood}"><td></td><td></td><td class="number">{remark["time_s"]:.2f}</td>'
        f'<td colspan="3"><strong>{escape(text)}</strong></td></tr>'
    )


def _plan(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the planned motions; the one closest to a limit is marked in each column."""
    title = '<h3>Planned motions and their margins</h3>'
    if not rows:
        return f'{title}\n<p class="note">The recording has no plan report.</p>'
    keys = [key for key, _, _ in COLUMNS]
    numeric = [i for i, (_, _, shape) in enumerate(COLUMNS) if shape != '{}']
    nearest = set(_nearest(rows, keys))
    body = [
        _row(cells(row), 'td', numeric, [i for n, i in nearest if n == where])
        for where, row in enumerate(rows)
    ]
    return (
        f'{title}\n{_table(_row([name for _, name, _ in COLUMNS], "th", numeric), body)}\n'
        '<p class="note">Computed by the gate before the motion. Velocity, acceleration, jerk and '
        'torque are fractions of their limits; the value closest to its limit is marked.</p>'
    )


def _nearest(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield row and column of the values closest to their limits."""
    for names, choose in ((_NEAREST_HIGH, max), (_NEAREST_LOW, min)):
        for name in names:
            values = [row[name] for row in rows]
            yield values.index(choose(values)), keys.index(name)


# -- HTML --------------------------------------------------------------------------------------


def _table(heading: str, rows: Sequence[str]) -> str:
    body = '\n'.join(rows)
    return (
        f'<div class="wide"><table>\n<thead>{heading}</thead>\n'
        f'<tbody>\n{body}\n</tbody></table></div>'
    )


def _row(
    texts: Sequence[str], tag: str, numeric: Sequence[int], nearest: Sequence[int] = ()
) -> str:
    kinds = (
        ' '.join(name for name, where in (('number', numeric), ('nearest', nearest)) if i in where)
        for i in range(len(texts))
    )
    return (
        '<tr>'
        + ''.join(
            f'<{tag}{kind and f" class={chr(34)}{kind}{chr(34)}"}>{escape(text)}</{tag}>'
            for text, kind in zip(texts, kinds, strict=True)
        )
        + '</tr>'
    )


def _pictures(folder: Path, method: str) -> str:
    found = [
        _figure((folder / name).read_bytes(), kind, what, f'{what.capitalize()} ({method}).')
        for name, kind, what in _PICTURES
        if (folder / name).exists()
    ]
    if not found:
        return '<p class="note">The folder has no pictures of the cell.</p>'
    return '<h3>The cell</h3>\n<div class="pictures">\n' + '\n'.join(found) + '\n</div>'


def _figure(picture: bytes, kind: str, alt: str, caption: str) -> str:
    data = base64.b64encode(picture).decode('ascii')
    return (
        f'<figure><img alt="{escape(alt)}" src="data:image/{kind};base64,{data}">'
        f'<figcaption>{escape(caption)}</figcaption></figure>'
    )


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format='png', dpi=110)
    return file.getvalue()
