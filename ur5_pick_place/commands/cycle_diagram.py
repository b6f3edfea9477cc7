# SPDX-License-Identifier: Apache-2.0
"""Print the stages of a cycle file as a Mermaid diagram."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from ur5_pick_place.task.cycle.file import Cycle, load_cycle
from ur5_pick_place.task.cycle.stages import WAITS_AND_PINS, Stage
from ur5_pick_place.task.places.names import taught_place
from ur5_pick_place.terminal import Parser, command

_SPECIAL = str.maketrans({c: f'#{ord(c)};' for c in '#"<>&'})  # special characters of Mermaid


@command('cycle_diagram')
def main(argv: list[str] | None = None) -> int:
    """Run the command and give its exit code: 0, or 2 if the file is invalid."""
    parser = Parser(
        prog='cycle_diagram',
        description=__doc__,
        epilog='Example: cycle_diagram config/cycle.yaml',
    )
    parser.add_argument('file', type=Path, help='cycle file, such as config/cycle.yaml')
    print(diagram(load_cycle(parser.parse_args(argv).file)))
    return 0


def diagram(cycle: Sequence[Stage]) -> str:
    """
    Return Mermaid text: rounded boxes where the arm moves, rectangles where it is at rest.

    A bent arrow marks a move that is blended into the next one; a dotted one comes from a place
    that is read from a TF frame.
    """
    lines = ['flowchart LR']
    groups = [(is_move, list(stages)) for is_move, stages in groupby(cycle, lambda s: s.is_move)]
    for i, (is_move, stages) in enumerate(groups):
        left, right = ('(["', '"])') if is_move else ('["', '"]')
        lines.append(f'  s{i}{left}{"<br/>".join(map(_words, stages))}{right}')
    lines.append(f'  {" --> ".join(f"s{i}" for i in range(len(groups)))}')
    places = cycle.places if isinstance(cycle, Cycle) else {}
    frames = {name: place.from_frame for name, place in places.items() if place.from_frame}
    for i, (_, stages) in enumerate(groups):
        for name in {taught_place(stage.to): None for stage in stages}:
            if name in frames:
                frame = frames.pop(name).translate(_SPECIAL)
                lines.append(f'  {name}[/"{name}: TF frame {frame}"/] -.-> s{i}')
    return '\n'.join(lines)


def _words(stage: Stage) -> str:
    name = stage.name.translate(_SPECIAL)
    if stage.do in WAITS_AND_PINS and stage.name != stage.summary:
        return f'{name}: {stage.summary}'
    if not stage.is_move:
        return name
    return f'{name}: {stage.do}{" ↷" if stage.blend else ""}'


if __name__ == '__main__':
    raise SystemExit(main())
