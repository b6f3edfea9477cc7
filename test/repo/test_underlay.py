# SPDX-License-Identifier: Apache-2.0
"""The stand-ins for what the Python registry lacks are what a ROS 2 installation would have."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tf2_ros
from ament_index_python.packages import get_package_share_directory
from control_msgs.action import FollowJointTrajectory
from controller_manager_msgs.srv import SwitchController
from moveit_msgs.msg import MoveItErrorCodes
from ur_dashboard_msgs.msg import ProgramState, RobotMode
from ur_msgs.srv import SetIO

from ur5_pick_place.nodes.ros.distro import distro

REPO = Path(__file__).resolve().parents[2]
VENV = REPO / '.venv'

if not Path(tf2_ros.__file__).is_relative_to(REPO / 'underlay'):
    pytest.skip('a ROS 2 installation brings the real ones', allow_module_level=True)

# Hashes of the type descriptions (fields, their types and order, and all they contain), computed
# from the definitions of the releases themselves: moveit_msgs 2.6.0, control_msgs 6.8.0, ...
HASHES = json.loads((REPO / 'test/data/interface_hashes.json').read_text())


# ---- interfaces


def hash_of(name):
    package, kind, stem = name.split('/')
    description = Path(get_package_share_directory(package), kind, f'{stem}.json').read_text()
    hashes = {h['type_name']: h['hash_string'] for h in json.loads(description)['type_hashes']}
    return hashes[name]


def test_every_type_has_the_hash_of_its_release():
    assert {name: hash_of(name) for name in HASHES} == HASHES


def test_every_definition_is_among_the_hashes():
    files = [f for kind in ('msg', 'srv', 'action') for f in REPO.glob(f'underlay/*/{kind}/*')]
    assert {f'{f.parts[-3]}/{f.parts[-2]}/{f.stem}' for f in files} == set(HASHES)


@pytest.mark.parametrize(
    ('owner', 'name', 'value'),
    [
        (FollowJointTrajectory.Result, 'GOAL_TOLERANCE_VIOLATED', -5),
        (FollowJointTrajectory.Result, 'PATH_TOLERANCE_VIOLATED', -4),
        (MoveItErrorCodes, 'SUCCESS', 1),
        (MoveItErrorCodes, 'FAILURE', 99999),
        (MoveItErrorCodes, 'NO_IK_SOLUTION', -31),
        (MoveItErrorCodes, 'INVALID_LINK_NAME', -18),
        (ProgramState, 'PLAYING', 'PLAYING'),
        (RobotMode, 'NO_CONTROLLER', -1),
        (RobotMode, 'RUNNING', 7),
        (SetIO.Request, 'FUN_SET_TOOL_VOLTAGE', 4),
        (SetIO.Request, 'PIN_TOOL_DOUT0', 16),
        (SetIO.Request, 'STATE_TOOL_VOLTAGE_24V', 24),
        (SwitchController.Request, 'STRICT', 2),
        (SwitchController.Request, 'FORCE_AUTO', 4),
    ],
)
def test_a_constant_which_no_hash_covers_has_its_value(owner, name, value):
    assert getattr(owner, name) == value


# ---- the environment


def in_a_shell(code: str, **variables: str) -> list[str]:
    """Run code by the environment's Python with these variables alone; return its words."""
    words = [VENV / 'bin/python', '-c', code]
    done = subprocess.run(words, env=variables, cwd='/', capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


needs_venv = pytest.mark.skipif(Path(sys.prefix) != VENV, reason='not run from .venv')


NAMES = (distro().profiles, 'ROS_DOMAIN_ID', 'ROS_AUTOMATIC_DISCOVERY_RANGE')
SHOW = f'import os; print(*(os.environ.get(name) for name in {NAMES}))'


@needs_venv
def test_a_process_discovers_fast_and_on_this_machine_only_unless_the_user_says_otherwise():
    profiles = str(VENV / 'fastdds.xml')
    assert in_a_shell(SHOW) == [profiles, 'None', 'LOCALHOST']
    own = {'ROS_DOMAIN_ID': '42', 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SUBNET'}
    assert in_a_shell(SHOW, **own) == [profiles, '42', 'SUBNET']


@needs_venv
def test_with_nothing_sourced_all_imports_and_ament_finds_the_package_and_its_programs():
    (share,) = in_a_shell(
        'import rclpy, moveit_msgs.srv, control_msgs.action, ur_msgs.srv, tf2_ros, ur5_pick_place;'
        'from ament_index_python import get_package_share_directory as g; '
        "print(g('ur5_pick_place'))"
    )
    assert Path(share, 'config/pick_place.yaml').exists()
    for program in ('sim_driver', 'trajectory_planner', 'pick_place', 'ik_service'):
        assert os.access(VENV / 'lib/ur5_pick_place' / program, os.X_OK)
        assert os.access(VENV / 'bin' / program, os.X_OK)
