# SPDX-License-Identifier: Apache-2.0
"""
Files and settings spoilt at random are read, or refused by the package's own errors.

Real files are cut, mixed up and given values that nobody expects. UR5_FUZZ=50000 asks for more.
"""

import copy
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from calibration_files import SHIPPED, write
from fuzzing import NUMBERS, TEXT, WHOLE, fuzzed
from hypothesis import given
from hypothesis import strategies as st
from taught_poses import MODEL, NOW, POSES

from ur5_pick_place.config_files import read_parameters
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.control.robot_status import HealthSettings
from ur5_pick_place.demo.configuration import Configuration
from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError
from ur5_pick_place.kinematics import HOME, forward
from ur5_pick_place.kinematics.loading import load_calibrated
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.sim.physics.world import CellSettings
from ur5_pick_place.task.cycle.file import load_cycle
from ur5_pick_place.task.cycle.pattern import PatternSettings
from ur5_pick_place.task.cycle.steps import annotate, blended_groups
from ur5_pick_place.task.grippers.outputs import DigitalSettings
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.places.file import PosesFile
from ur5_pick_place.task.places.poses import converted

CONFIG = Path(__file__).parents[2] / 'config'
KINDS = (
    CellSettings,
    DigitalSettings,
    HealthSettings,
    LoopSettings,
    MotionSettings,
    PatternSettings,
    TaskSettings,
    TrackingSettings,
)

SCALARS = st.one_of(st.none(), st.booleans(), WHOLE, NUMBERS, TEXT, st.dates(), st.binary())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(TEXT | WHOLE, inner, max_size=4)
    ),
    max_leaves=8,
)
# What is short to write, and long or impossible to take in.
TRAPS = (
    'a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b]\nd: [*c,*c]\n',
    '&a [*a]',
    '[' * 90_000,
    '- ' * 40_000,
    '2020-99-99',
    '0x' + 'f' * 5000,
    '1' * 5000,
    '1:' * 500 + '1',
    '? {a: b}\n: c',
    '!!python/object/apply:os.system [exit]',
    '!!int ""',
    '!!bool maybe',
    '!!timestamp today',
    '!!binary "\xff"',
    'a' * 100_001,
    'table_height: 0.0\ntable_height: -1.5\n',
    'stages: [{do: open, name: a, name: b}]\n',
)


def scene_holds(path: Path) -> None:
    scene = load_scene(path)
    assert np.isfinite([box.T_base_link_box for box in scene.boxes]).all()
    assert len(scene.fingerprint()) == 16


def cycle_holds(path: Path) -> None:
    cycle = load_cycle(path)
    assert sum(map(len, blended_groups(annotate(cycle)))) == len(cycle)


def calibration_holds(path: Path) -> None:
    assert np.isfinite(forward(load_calibrated(path), HOME)).all()


def poses_hold(path: Path) -> None:
    for name, taught in PosesFile(path).poses.items():
        converted(name, taught, NOW, MODEL)


READERS: dict[str, Callable[[Path], None]] = {
    'scene': scene_holds,
    'cycle': cycle_holds,
    'calibration': calibration_holds,
    'poses': poses_hold,
}


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with a good file of each kind."""
    folder = tmp_path_factory.mktemp('files')
    scene = yaml.safe_load((CONFIG / 'scene_sim.yaml').read_text())
    scene['boxes'] = [{'name': 'crate', 'position': [1, 1, 1], 'size': [0.1, 0.1, 0.1]}]
    (folder / 'scene').write_text(yaml.safe_dump(scene))
    (folder / 'cycle').write_text((CONFIG / 'cycle.yaml').read_text())
    write(folder / 'calibration', SHIPPED)
    poses = PosesFile(folder / 'poses')
    for name, pose in POSES.items():
        poses.keep(name, pose)
    (folder / 'poses.last').unlink()
    return folder


def places(node: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) in nested data."""
    keys = node.keys() if isinstance(node, dict) else range(len(node))
    found = [(node, key) for key in keys]
    for key in keys:
        if isinstance(node[key], (dict, list)):
            found += places(node[key])
    return found


def spoil(data: Any, draw: st.DrawFn) -> Any:
    """Change nested data in one place."""
    node, key = draw(st.sampled_from(places(data)))
    match draw(st.sampled_from(['value', 'lost', 'renamed', 'more', 'twice'])):
        case 'value':
            node[key] = draw(VALUES)
        case 'lost':
            del node[key]
        case 'renamed' if isinstance(node, dict):
            node[draw(TEXT | WHOLE)] = node.pop(key)
        case 'more' if isinstance(node[key], list):
            node[key] = node[key] * draw(st.integers(0, 50))
        case _ if isinstance(node, list):
            node.append(copy.deepcopy(node[key]))
    return data


class _Written(yaml.SafeDumper):
    """Without aliases, which are refused as such."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@st.composite
def spoilt(draw: st.DrawFn, good: str) -> bytes:
    """Give a good file spoilt: as data, as text, or replaced."""
    match draw(st.integers(0, 7)):
        case 0:
            return draw(st.binary(max_size=60))
        case 1:
            return draw(st.sampled_from(TRAPS)).encode()
        case 2 | 3:
            content = good.encode()
            begin, end = sorted(draw(st.tuples(*[st.integers(0, len(content))] * 2)))
            middle = draw(st.binary(max_size=6) | st.sampled_from(TRAPS[:6]).map(str.encode))
            return content[:begin] + middle + content[end if draw(st.booleans()) else begin :]
        case _:
            data = spoil(yaml.safe_load(good), draw)
            text = yaml.dump(data, Dumper=_Written, explicit_end=True, sort_keys=False)
            return text.encode(errors='surrogatepass')


@pytest.mark.parametrize('kind', READERS)
@fuzzed(0.08)
@given(data=st.data())
def test_a_spoilt_file_is_read_or_refused_and_left_alone(folder, kind, data):
    content = data.draw(spoilt((folder / kind).read_text()))
    path = folder / f'spoilt_{kind}'
    path.write_bytes(content)
    try:
        READERS[kind](path)
    except Ur5PickPlaceError as error:
        assert str(path) in str(error) or kind == 'poses'
        assert len(str(error)) < 1_000_000
    assert path.read_bytes() == content


@pytest.mark.parametrize('kind', READERS)
@pytest.mark.parametrize('trap', TRAPS, ids=range(len(TRAPS)))
def test_a_trap_is_refused(folder, kind, trap):
    path = folder / f'trap_{kind}'
    path.write_text(f'{trap}\n...\n', encoding='utf-8')
    with pytest.raises(InvalidInput):
        READERS[kind](path)


@pytest.mark.parametrize('kind', READERS)
def test_what_is_not_spoilt_is_read(folder, kind):
    READERS[kind](folder / kind)


@pytest.mark.parametrize('kind', KINDS)
@fuzzed(0.03)
@given(data=st.data())
def test_a_parameter_is_kept_within_its_bounds_or_refused(kind, data):
    f = data.draw(st.sampled_from(fields(kind)))
    value = data.draw(VALUES)
    try:
        made = kind.from_dict({f.name: value}), Configuration({f.name: value}).read(kind)
    except InvalidInput as error:
        assert f.name in str(error)
        return
    kept = getattr(made[0], f.name)
    assert kept == getattr(made[1], f.name)
    numbers = np.atleast_1d(kept) if isinstance(kept, (float, int, tuple)) else np.empty(0)
    if numbers.size and numbers.dtype.kind in 'fi':
        low, high = f.metadata['low'], f.metadata['high']
        assert np.isfinite(numbers).all()
        assert low is None or (numbers >= low).all()
        assert high is None or (numbers <= high).all()


def test_a_parameter_file_without_parameters_is_refused(tmp_path, monkeypatch):
    for file in CONFIG.glob('*.yaml'):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / 'pick_place.yaml').write_text('/**: {method: ik}')
    monkeypatch.setattr('ur5_pick_place.demo.configuration.CONFIG', tmp_path)
    with pytest.raises(InvalidInput, match=r'pick_place.yaml: must hold, under each node'):
        Configuration({})


def test_a_page_in_the_place_of_a_parameter_file_is_refused(tmp_path):
    path = tmp_path / 'lab.yaml'  # a download that failed
    path.write_text('<!DOCTYPE html>\n<html></html>\n')
    with pytest.raises(InvalidInput, match=f'{path}: must hold `ros__parameters:`.*<!DOCTYPE'):
        read_parameters(path)


@fuzzed(0.02)
@given(content=spoilt((CONFIG / 'trajectory_planner.yaml').read_text()))
def test_a_spoilt_parameter_file_is_read_or_refused(folder, content):
    with pytest.MonkeyPatch.context() as patch:
        config = folder / 'config'
        config.mkdir(exist_ok=True)
        for file in CONFIG.glob('*.yaml'):
            (config / file.name).write_bytes(file.read_bytes())
        (config / 'trajectory_planner.yaml').write_bytes(content)
        patch.setattr('ur5_pick_place.demo.configuration.CONFIG', config)
        try:
            configuration = Configuration({})
            for kind in KINDS:
                configuration.read(kind)
        except InvalidInput:
            return
