# SPDX-License-Identifier: Apache-2.0
"""The one list of nodes, and what the launch file makes of it for each robot."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from calibration_files import SHIPPED, write

from ur5_pick_place.config_files import read_parameters
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.cell.node_list import ROBOTS, node_list
from ur5_pick_place.nodes.ros.distro import discovery, distro

REPO = Path(__file__).resolve().parents[2]
CONFIG = REPO / 'config'
LAUNCH_FILE = REPO / 'launch/pick_place.launch.py'

OURS = ['ik_service', 'trajectory_planner', 'pick_place']


# ---- the list


@pytest.mark.parametrize('robot', ROBOTS)
def test_only_the_simulated_robot_is_a_node_of_ours(robot):
    names = [spec.executable for spec in node_list(robot, CONFIG)]
    assert names == (['sim_driver', *OURS] if robot == 'sim' else OURS)


@pytest.mark.parametrize('robot', ROBOTS)
def test_every_parameter_file_exists_and_speaks_to_every_namespace(robot):
    for spec in node_list(robot, CONFIG):
        for file in spec.parameter_files:
            assert set(yaml.safe_load(file.read_text())) == {'/**'}


@pytest.mark.parametrize('robot', ROBOTS)
def test_the_recorder_is_added_on_request(robot):
    names = [spec.executable for spec in node_list(robot, CONFIG, record=True)]
    assert names[-1] == 'recorder' and 'recorder' not in names[:-1]


def test_no_two_robots_share_a_file_of_poses():
    files = [
        yaml.safe_load((CONFIG / f'robot_{robot}.yaml').read_text())['/**']['ros__parameters']
        for robot in ROBOTS
    ]
    assert len({file['poses_file'] for file in files}) == len(ROBOTS)


def place_files(**options) -> set[str]:
    (spec,) = [s for s in node_list('sim', CONFIG, **options) if s.executable == 'pick_place']
    return {str(value) for name, value in spec.parameters.items() if name == 'poses_file'}


def test_a_cell_in_a_namespace_has_places_and_statistics_of_its_own(tmp_path):
    folder = Path('~/.ros/ur5_pick_place').expanduser()
    assert place_files() == place_files(namespace='/') == set()  # that of the parameter file
    assert place_files(namespace='/b/') == {f'{folder}/poses_sim-b.yaml'}
    assert place_files(namespace='a/b') == {f'{folder}/poses_sim-a-b.yaml'}
    own = tmp_path / 'own.yaml'
    own.write_text('/**: {ros__parameters: {poses_file: /x/mine.yaml}}')
    assert place_files(namespace='b', params_file=str(own)) == set()


def test_parameters_of_other_nodes_in_the_users_file_are_not_ours(tmp_path):
    own = tmp_path / 'own.yaml'
    own.write_text("""
        teleop_node: {ros__parameters: {use_sim_time: false, poses_file: /x/theirs.yaml}}
        /controller_manager: {ros__parameters: {tf_prefix: their_}}
        /right/pick_place: {ros__parameters: {gripper: vacuum, poses_file: /x/right.yaml}}
        left: {pick_place: {ros__parameters: {grip_time: 0.5}}}
    """)
    specs = node_list('sim', CONFIG, namespace='/left/', params_file=str(own))
    without = node_list('sim', CONFIG, namespace='/left/')
    assert [spec.parameters for spec in specs] == [spec.parameters for spec in without]
    assert [spec.parameter_files for spec in specs] == [
        (*spec.parameter_files, own) for spec in without
    ]
    own.write_text('"/*/pick_place": {ros__parameters: {use_sim_time: false}}')
    with pytest.raises(InvalidInput, match='use_sim_time = False conflicts with True'):
        node_list('sim', CONFIG, namespace='left', params_file=str(own))
    node_list('sim', CONFIG, params_file=str(own))


def test_simulated_time_is_for_the_simulated_cell_alone():
    for robot in ROBOTS:
        for spec in node_list(robot, CONFIG):
            if spec.executable != 'sim_driver':
                assert spec.parameters['use_sim_time'] == (robot == 'sim')


def test_the_simulated_cell_has_the_scene_file_of_the_planner():
    for gripper, name in (('digital', 'scene_sim.yaml'), ('vacuum', 'scene_vacuum.yaml')):
        for spec in node_list('sim', CONFIG, gripper=gripper):
            found = {}
            for path in spec.parameter_files:
                found |= read_parameters(path)
            assert found['scene_file'] == name, spec.executable


@pytest.mark.parametrize('folder', ['/home/someone', f'/{"x" * 300}'])  # none may look into it
def test_the_users_parameters_are_read_last(folder):
    for spec in node_list('real', CONFIG, params_file=f'{folder}/cell.yaml'):
        assert spec.parameter_files[-1] == Path(f'{folder}/cell.yaml')


def test_cell_and_clients_agree_on_controller_and_prefix():
    specs = node_list('sim', CONFIG, controller='joint_trajectory_controller', tf_prefix='a_')
    assert {spec.parameters['controller'] for spec in specs} == {'joint_trajectory_controller'}
    assert {spec.parameters['tf_prefix'] for spec in specs} == {'a_'}


def test_a_namespace_takes_the_absolute_names_along():
    words = node_list('sim', CONFIG, namespace='/cell2/')[0].arguments()
    assert '__ns:=/cell2' in words
    for name in ('tf', 'tf_static', 'clock', 'diagnostics'):
        assert f'/{name}:={name}' in words


def test_strings_on_the_command_line_stay_strings():
    words = node_list('sim', CONFIG, tf_prefix='', controller='on')[1].arguments()
    assert 'tf_prefix:=""' in words
    assert 'controller:="on"' in words
    assert 'use_sim_time:=true' in words


@pytest.mark.parametrize(
    ('robot', 'options', 'message'),
    [
        ('gazebo', {}, "robot = 'gazebo': must be one of sim, mock, ursim, real"),
        ('sim', {'kinematics_params_file': '/c.yaml'}, 'nominal kinematics'),
    ],
)
def test_a_robot_that_does_not_exist_is_refused_by_name(robot, options, message):
    with pytest.raises(InvalidInput, match=message):
        node_list(robot, CONFIG, **options)


@pytest.mark.parametrize(
    ('name', 'controller', 'mock_argument'),
    [
        ('humble', 'scaled_joint_trajectory_controller', 'use_fake_hardware'),
        ('jazzy', 'scaled_joint_trajectory_controller', 'use_mock_hardware'),
        ('kilted', 'scaled_joint_trajectory_controller', 'use_mock_hardware'),
        ('lyrical', 'joint_trajectory_controller', 'use_mock_hardware'),
        ('rolling', 'joint_trajectory_controller', 'use_mock_hardware'),
    ],
)
def test_each_distribution_has_its_driver(monkeypatch, name, controller, mock_argument):
    monkeypatch.setenv('ROS_DISTRO', name)
    assert (distro().controller, distro().mock_argument) == (controller, mock_argument)


def test_discovery_is_limited_to_this_machine_on_every_distribution(monkeypatch):
    newer = {'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}
    monkeypatch.setenv('ROS_DISTRO', 'jazzy')
    assert discovery('LOCALHOST') == newer
    monkeypatch.setenv('ROS_DISTRO', 'humble')  # it does not know the newer variable
    assert discovery('LOCALHOST') == {**newer, 'ROS_LOCALHOST_ONLY': '1'}
    assert discovery('SUBNET')['ROS_LOCALHOST_ONLY'] == '0'


# ---- the launch file


@pytest.fixture
def launched(monkeypatch):
    """Return a function: launch arguments -> the actions they lead to, in a launch context."""
    # From the repository's root a plain `import launch` would find our folder of that name.
    pytest.importorskip('launch_ros', reason='launch_ros is part of a ROS 2 installation')
    from launch import LaunchContext

    spec = importlib.util.spec_from_file_location('pick_place_launch', LAUNCH_FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, 'get_package_share_directory', lambda name: str(REPO))
    monkeypatch.setenv('ROS_DISTRO', os.environ.get('ROS_DISTRO', 'kilted'))

    def launch(**arguments):
        context = LaunchContext()
        launch.module = module
        context.launch_configurations.update(arguments)
        for action in module.generate_launch_description().entities[:-1]:
            action.visit(context)
        return module.start(context), context

    return launch


def nodes_in(actions):
    from launch_ros.actions import Node

    return [action for action in actions if isinstance(action, Node)]


def driver_arguments(actions, context):
    """Return what the driver's launch file is given."""
    from launch.actions import GroupAction, IncludeLaunchDescription
    from launch.utilities import normalize_to_list_of_substitutions as normalised
    from launch.utilities import perform_substitutions

    (group,) = [action for action in actions if isinstance(action, GroupAction)]
    (include,) = [
        action for action in group.get_sub_entities()
        if isinstance(action, IncludeLaunchDescription)
    ]
    return {
        name: perform_substitutions(context, normalised(value))
        for name, value in include.launch_arguments
    }


def test_the_cell_is_launched_without_any_driver(launched):
    actions, _ = launched()
    assert [node.node_executable for node in nodes_in(actions)] == [
        'sim_driver', *OURS, 'recorder'
    ]
    assert len(actions) == 5
    actions, _ = launched(record='false')
    assert [node.node_executable for node in nodes_in(actions)] == ['sim_driver', *OURS]


def test_rviz_brings_the_robots_description_along(launched):
    actions, _ = launched(rviz='true')
    added = [node.node_executable for node in nodes_in(actions)][5:]
    assert added == ['robot_state_publisher', 'rviz2']


def test_mock_hardware_is_asked_for_by_the_distributions_name(launched, monkeypatch):
    for name, argument in (('humble', 'use_fake_hardware'), ('jazzy', 'use_mock_hardware')):
        monkeypatch.setenv('ROS_DISTRO', name)
        given = driver_arguments(*launched(robot='mock'))
        assert given[argument] == 'true'
        assert given['robot_ip'] == '0.0.0.0'
        assert given['launch_rviz'] == 'false'


def test_the_driver_starts_the_controller_that_our_nodes_use(launched):
    given = driver_arguments(*launched(robot='ursim', controller='joint_trajectory_controller'))
    assert given['initial_joint_controller'] == 'joint_trajectory_controller'
    assert given['robot_ip'] == '192.168.56.101'
    assert given['use_mock_hardware'] == 'false'


def test_a_calibration_reaches_the_driver_and_its_absence_leaves_the_drivers_default(launched):
    real = {'robot': 'real', 'robot_ip': '10.0.0.2'}
    assert 'kinematics_params_file' not in driver_arguments(*launched(**real))
    given = driver_arguments(*launched(**real, kinematics_params_file='/c.yaml'))
    assert given['kinematics_params_file'] == '/c.yaml'


def test_our_empty_arguments_do_not_leak_into_the_driver(launched):
    actions, context = launched(robot='mock')
    for entity in actions[-1].get_sub_entities():
        if type(entity).__name__ == 'IncludeLaunchDescription':
            break
        entity.visit(context)
    assert 'kinematics_params_file' not in context.launch_configurations


def test_a_real_robot_needs_an_address(launched):
    with pytest.raises(InvalidInput, match='robot_ip is missing'):
        launched(robot='real')


def test_a_namespace_for_the_driver_is_refused(launched):
    with pytest.raises(InvalidInput, match='expects /controller_manager'):
        launched(robot='mock', namespace='left')


def test_a_driver_that_runs_already_is_left_alone(launched):
    actions, _ = launched(robot='real', driver='false')
    assert actions == nodes_in(actions)
    assert [node.node_executable for node in actions] == [*OURS, 'recorder']


def test_an_argument_for_the_driver_is_refused_by_name_without_one(launched):
    with pytest.raises(InvalidInput, match='^robot_ip:=10.0.0.2: only for the UR driver'):
        launched(robot_ip='10.0.0.2')
    with pytest.raises(InvalidInput, match='^headless_mode:=true, driver:=false: only for'):
        launched(headless_mode='true', driver='false')


def test_a_calibration_of_another_type_is_refused(launched, tmp_path):
    path = str(write(tmp_path / 'my_ur5.yaml', SHIPPED))
    given = {'robot': 'real', 'driver': 'false', 'kinematics_params_file': path}
    actions, context = launched(**given)
    assert not actions[0].visit(context)
    actions, context = launched(**given, ur_type='ur5e')
    wanted = 'belongs to a ur5, but ur_type = ur5e: add ur_type:=ur5'
    with pytest.raises(InvalidInput, match=wanted):
        actions[0].visit(context)


# ---- what is needed is there before anything starts


@pytest.mark.parametrize('robot', ['mock', 'ursim', 'real'])
def test_without_the_drivers_package_nothing_starts(launched, robot):
    actions, context = launched(robot=robot, robot_ip='10.0.0.2')
    with pytest.raises(InvalidInput, match='(?s)ur_robot_driver.*nothing was started'):
        actions[0].visit(context)


def test_rviz_and_the_robots_description_are_looked_for_too(launched):
    actions, context = launched(rviz='true')
    with pytest.raises(InvalidInput, match='ur_description .*rviz2 .*xacro'):
        actions[0].visit(context)


def test_with_everything_installed_the_nodes_start(launched, monkeypatch, tmp_path):
    actions, context = launched(robot='mock', rviz='true')
    module = launched.module
    for _package, path in (*module.DRIVER, *module.DESCRIPTION, module.RVIZ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.setattr(module, 'get_package_prefix', lambda _name: str(tmp_path))
    monkeypatch.setattr(module.shutil, 'which', lambda _name: '/usr/bin/xacro')
    assert not actions[0].visit(context)


@pytest.mark.parametrize('argument', ['params_file', 'kinematics_params_file'])
def test_a_file_that_cannot_be_read_is_named_before_anything_starts(launched, argument):
    arguments = {'robot': 'sim', argument: '/nowhere.yaml'}
    if argument == 'kinematics_params_file':
        arguments = {**arguments, 'robot': 'real', 'robot_ip': '10.0.0.2'}
    actions, context = launched(**arguments)
    with pytest.raises(InvalidInput, match='/nowhere.yaml cannot be read'):
        actions[0].visit(context)


def test_a_robot_type_that_nobody_knows_is_refused(launched):
    with pytest.raises(InvalidInput, match="ur_type = 'ur6': must be one of ur3, "):
        launched(robot='mock', ur_type='ur6')


LAUNCH = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
path, *arguments = sys.argv[1:]
include = IncludeLaunchDescription(
    PythonLaunchDescriptionSource(path),
    launch_arguments=[argument.split(':=') for argument in arguments],
)
service = LaunchService()
service.include_launch_description(LaunchDescription([include]))
sys.exit(service.run())
"""


def launch_in_a_process(domain, *arguments):
    environment = {**os.environ, 'ROS_DOMAIN_ID': str(domain), 'ROS_LOG_DIR': '/tmp'}
    command = [sys.executable, '-c', LAUNCH, str(LAUNCH_FILE), *arguments]
    return subprocess.Popen(command, cwd='/', env=environment, stderr=subprocess.STDOUT,
                            stdout=subprocess.PIPE, text=True)


def nodes_of(domain):
    """Return the ids of our nodes' processes in a DDS domain, by command line."""
    found = {}
    for folder in Path('/proc').glob('[0-9]*'):
        try:
            if f'ROS_DOMAIN_ID={domain}\0' in (folder / 'environ').read_text():
                found[int(folder.name)] = (folder / 'cmdline').read_text()
        except (OSError, UnicodeDecodeError):
            continue
    return {pid: line for pid, line in found.items() if any(f'/{n}\0' in line for n in OURS)}


def gone(domain, seconds):
    deadline = time.monotonic() + seconds
    while nodes_of(domain) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not nodes_of(domain)


@pytest.mark.nodes
def test_a_launch_that_fails_leaves_no_node_behind(launched, ros_domain):
    service = launch_in_a_process(ros_domain, 'robot:=mock')
    output, _ = service.communicate(timeout=60.0)
    assert service.returncode == 1
    assert 'ur_robot_driver' in output
    assert not nodes_of(ros_domain)


@pytest.mark.nodes
def test_a_launch_that_is_killed_leaves_no_node_behind(launched, ros_domain):
    service = launch_in_a_process(ros_domain)
    deadline = time.monotonic() + 30.0
    while len(nodes_of(ros_domain)) < len(OURS):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1.0)
    service.kill()
    service.wait()
    assert gone(ros_domain, 5.0), nodes_of(ros_domain)
