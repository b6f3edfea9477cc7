# SPDX-License-Identifier: Apache-2.0
"""
Measure ourselves beside others, in one run; `make bench`.

Ratios count, not times, which depend on the machine. The table is printed and kept as
`out/bench-<UTC stamp>.json`.
"""

import json
import platform
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import accuracy
import cycle
import kinematics
import numpy
import obstacles
import peers
import services
import shares
import ticks
import trajectories
from measure import ROUNDS, Row

OUT = Path(__file__).resolve().parents[1] / 'out'


def main() -> None:
    """Measure, print, keep."""
    rows = [
        *kinematics.measure(),
        *trajectories.measure(),
        *cycle.measure(),
        *obstacles.measure(),
        *ticks.measure(),
        *accuracy.measure(),
        *services.measure(),
        *shares.measure(),
    ]
    print(f'{"":32}{"ours":>16}  {"beside":24}{"theirs":>16}{"ratio":>8}{"at most":>10}')
    for row in rows:
        print(_line(row))
    for peer, reason in peers.skipped.items():
        print(f'not measured: {peer} ({reason})')
    print(f'kept as {_keep(rows).relative_to(OUT.parent)}')


def _line(row: Row) -> str:
    theirs = '' if row.theirs is None else f'{row.theirs:.4g} {row.unit}'
    ratio = '' if row.ratio is None else f'{row.ratio:.3g}'
    goal = '' if row.goal is None else f'{row.goal:g}'
    miss = '  missed' if row.met is False else ''
    ours = f'{row.ours:.4g} {row.unit}'
    return f'{row.what:32}{ours:>16}  {row.peer:24}{theirs:>16}{ratio:>8}{goal:>10}{miss}'


def _keep(rows: list[Row]) -> Path:
    now = datetime.now(timezone.utc)
    content = {
        'time': now.isoformat(timespec='seconds'),
        'machine': platform.platform(),
        'python': platform.python_version(),
        'numpy': numpy.__version__,
        'rounds': ROUNDS,
        'rows': [{**asdict(row), 'met': row.met} for row in rows],
        'skipped': peers.skipped,
    }
    OUT.mkdir(exist_ok=True)
    path = OUT / f'bench-{now:%Y%m%dT%H%M%SZ}.json'
    path.write_text(json.dumps(content, indent=2) + '\n', encoding='utf-8')
    return path


if __name__ == '__main__':
    main()
