# SPDX-License-Identifier: Apache-2.0
"""The one list of nodes, and what the launch file makes of it for each robot."""

import importlib.util
import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import rclpy
import yaml
from calibration_files import SHIPPED, write
from pace import until

from ur5_pick_place.config_files import read_parameters
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import matrix_from_quat
from ur5_pick_place.nodes.cell.node_list import ROBOTS, NodeSpec, node_list
from ur5_pick_place.nodes.ros.distro import discovery, distro

REPO = Path(__file__).resolve().parents[2]
CONFIG = REPO / 'config'
LAUNCH_FILE = REPO / 'launch/pick_place.launch.py'

OURS = ['ik_service', 'trajectory_planner', 'pick_place']
LEVEL = 'static_transform_publisher'


# ---- the list


@pytest.mark.parametrize('robot', ROBOTS)
def test_each_robot_has_its_nodes_files_and_time(robot):
    specs = node_list(robot, CONFIG, record=True)
    names = [spec.executable for spec in specs]
    assert names == [*(['sim_driver'] if robot == 'sim' else []), *OURS, 'recorder']
    assert [spec.executable for spec in node_list(robot, CONFIG)] == names[:-1]
    for spec in specs:
        for file in spec.parameter_files:
            assert set(yaml.safe_load(file.read_text())) == {'/**'}
        if spec.executable in OURS:
            assert spec.parameters['use_sim_time'] == (robot == 'sim')


def test_no_two_robots_share_a_file_of_poses():
    files = {read_parameters(CONFIG / f'robot_{robot}.yaml')['poses_file'] for robot in ROBOTS}
    assert len(files) == len(ROBOTS)


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


def test_the_simulated_cell_has_the_scene_file_of_the_planner():
    for gripper, name in (('digital', 'scene_sim.yaml'), ('vacuum', 'scene_vacuum.yaml')):
        for spec in node_list('sim', CONFIG, gripper=gripper):
            found = {}
            for path in spec.parameter_files:
                found |= read_parameters(path)
            assert found['scene_file'] == name, spec.executable


def scenes_of(specs):
    return {spec.parameters['scene_file'] for spec in specs}


@pytest.mark.parametrize(
    ('robot', 'gripper', 'name'),
    [('sim', 'digital', 'sim'), ('sim', 'vacuum', 'vacuum'), ('controller', 'digital', 'sim')],
)
def test_every_node_of_a_mounted_arm_gets_the_same_table(tmp_path, robot, gripper, name):
    def mounted(standing):
        assert standing == CONFIG / f'scene_{name}.yaml'
        return Path('/mounted.yaml')

    own = tmp_path / 'cell.yaml'
    given = {'mounting': 'wall', 'params_file': str(own), 'cockpit': {}, 'mounted_scene': mounted}
    own.write_text(f'/**: {{ros__parameters: {{gripper: {gripper}}}}}')
    assert scenes_of(node_list(robot, CONFIG, **given)) == {'/mounted.yaml'}
    own.write_text('/**: {ros__parameters: {scene_file: /my/scene.yaml}}')
    assert all('scene_file' not in s.parameters for s in node_list(robot, CONFIG, **given))


@pytest.mark.parametrize('folder', ['/home/someone', f'/{"x" * 300}'])  # none may look into it
def test_the_users_parameters_are_read_last(folder):
    for spec in node_list('real', CONFIG, params_file=f'{folder}/cell.yaml'):
        assert spec.parameter_files[-1] == Path(f'{folder}/cell.yaml')


def test_a_node_has_namespace_and_names_on_its_command_line():
    words = node_list('sim', CONFIG, namespace='/cell2/')[0].arguments()
    assert '__ns:=/cell2' in words
    for name in ('tf', 'tf_static', 'clock', 'diagnostics'):
        assert f'/{name}:={name}' in words
    for spec in node_list('sim', CONFIG, tf_prefix='', controller='on'):
        words = spec.arguments()
        assert 'tf_prefix:=""' in words and 'controller:="on"' in words, 'text stays text'


def test_ros_takes_a_path_of_any_letters():
    spec = NodeSpec('pick_place', '', (), {'poses_file': '/home/Zoë 😀/"my" %s: {x}.yaml'})
    context = rclpy.Context()
    context.init(args=spec.arguments())
    context.try_shutdown()


@pytest.mark.parametrize(
    ('robot', 'options', 'message'),
    [
        ('gazebo', {}, "robot = 'gazebo': must be one of sim, mock, controller, "),
        ('sim', {'kinematics_params_file': '/c.yaml'}, 'nominal kinematics'),
        ('controller', {'kinematics_params_file': '/c.yaml'}, 'nominal.*robot:=controller'),
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


# ---- the launch file: with a ROS 2 installation


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

    return [action.node_executable for action in actions if isinstance(action, Node)]


def driver_arguments(actions, context):
    """Return what the driver's launch file is given, none of it by our configurations."""
    from launch.actions import IncludeLaunchDescription
    from launch.utilities import normalize_to_list_of_substitutions as normalised
    from launch.utilities import perform_substitutions

    for entity in actions[-1].get_sub_entities():
        if isinstance(entity, IncludeLaunchDescription):
            break
        entity.visit(context)
    assert 'kinematics_params_file' not in context.launch_configurations
    return {
        name: perform_substitutions(context, normalised(value))
        for name, value in entity.launch_arguments
    }


@pytest.mark.parametrize(
    ('arguments', 'added'),
    [
        ({}, ['sim_driver', *OURS, 'recorder']),
        ({'record': 'false'}, ['sim_driver', *OURS]),
        (
            {'rviz': 'true'},
            ['sim_driver', *OURS, 'recorder', 'robot_state_publisher', 'rviz2'],
        ),
        (
            {'rviz': 'true', 'mounting': 'wall', 'record': 'false'},
            ['sim_driver', *OURS, 'robot_state_publisher', LEVEL, 'rviz2'],
        ),
        ({'robot': 'real', 'driver': 'false'}, [*OURS, 'recorder']),
    ],
)
def test_the_nodes_are_launched_that_the_arguments_ask_for(launched, arguments, added):
    actions, _ = launched(**arguments)
    assert nodes_in(actions) == added and len(actions) == len(added) + ('rviz' in arguments)


def test_rviz_shows_a_mounted_arm_in_a_frame_that_is_level(launched):
    from launch.utilities import perform_substitutions

    actions, context = launched(rviz='true', mounting='wall', tf_prefix='a_')
    (level,) = (a for a in actions if getattr(a, 'node_executable', '') == LEVEL)
    words = [perform_substitutions(context, part) for part in level.cmd[1:13]]
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert (given['--frame-id'], given['--child-frame-id']) == ('a_base_link', 'a_base_link_level')
    R = matrix_from_quat([float(given[f'--q{axis}']) for axis in 'xyzw'])
    np.testing.assert_allclose(R[:, 2], (-1.0, 0.0, 0.0), atol=1e-8)  # up, in base_link


@pytest.mark.parametrize(
    ('distribution', 'arguments', 'given'),
    [
        ('humble', {'robot': 'mock'}, {'use_fake_hardware': 'true', 'robot_ip': '0.0.0.0'}),
        ('jazzy', {'robot': 'mock'}, {'use_mock_hardware': 'true', 'launch_rviz': 'false'}),
        (
            'jazzy',
            {'robot': 'ursim', 'controller': 'joint_trajectory_controller'},
            {
                'initial_joint_controller': 'joint_trajectory_controller',
                'robot_ip': '192.168.56.101',
                'use_mock_hardware': 'false',
            },
        ),
        (
            'jazzy',
            {'robot': 'real', 'robot_ip': '10.0.0.2', 'kinematics_params_file': '/c.yaml'},
            {'kinematics_params_file': '/c.yaml', 'robot_ip': '10.0.0.2'},
        ),
    ],
)
def test_the_driver_is_given_what_it_needs(launched, monkeypatch, distribution, arguments, given):
    monkeypatch.setenv('ROS_DISTRO', distribution)
    found = driver_arguments(*launched(**arguments))
    assert found.items() >= given.items()
    assert ('kinematics_params_file' in found) == ('kinematics_params_file' in arguments)


@pytest.mark.parametrize(
    ('given', 'host', 'gripper'),
    [({}, '127.0.0.1', 'digital'), ({'robot_ip': '127.0.0.3'}, '127.0.0.3', 'vacuum')],
)
def test_the_driver_waits_for_the_simulated_controller(launched, tmp_path, given, host, gripper):
    from launch.events.process import ProcessStdout

    own = tmp_path / 'own.yaml'
    own.write_text(f'/**: {{ros__parameters: {{gripper: {gripper}}}}}')
    given = {'ur_type': 'ur5e', 'mounting': 'wall', 'params_file': str(own), **given}
    actions, context = launched(robot='controller', **given)
    *_, watch, process = actions
    words = [word[0].text for word in process.cmd[1:]]
    assert words[:4] == ['--ur-type', 'ur5e', '--mounting', 'wall']
    assert words[4:] == ['--host', host, '--gripper', gripper]

    def after(text):
        about = {'name': '', 'cmd': [], 'cwd': None, 'env': None, 'pid': 1}
        return watch.event_handler.handle(
            ProcessStdout(action=process, text=text, **about), context
        )

    assert not after(b'  127.0.0.1:29999  dashboard')
    found = driver_arguments(after(b'ready; Ctrl-C ends it'), context)
    assert found.items() >= {'robot_ip': host, 'headless_mode': 'true'}.items()


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        ({'robot': 'real'}, 'robot_ip is missing'),
        ({'robot': 'mock', 'namespace': 'left'}, 'expects /controller_manager'),
        ({'robot_ip': '10.0.0.2'}, '^robot_ip:=10.0.0.2: only for the UR driver'),
        ({'driver': 'false'}, '^driver:=false: only for'),
        ({'robot': 'mock', 'ur_type': 'ur6'}, "ur_type = 'ur6': must be one of ur3, "),
    ],
)
def test_arguments_that_do_not_fit_are_refused(launched, arguments, words):
    with pytest.raises(InvalidInput, match=words):
        launched(**arguments)


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        ({'robot': 'mock'}, '(?s)ur_robot_driver.*nothing was started'),
        ({'rviz': 'true'}, 'ur_description .*rviz2 .*xacro'),
        ({'params_file': '/nowhere.yaml'}, '/nowhere.yaml cannot be read'),
        (
            {'robot': 'real', 'driver': 'false', 'ur_type': 'ur5e', 'kinematics_params_file': ''},
            'belongs to a ur5, but ur_type = ur5e: add ur_type:=ur5',
        ),
    ],
)
def test_what_is_missing_is_named_before_anything_starts(launched, tmp_path, arguments, words):
    if 'kinematics_params_file' in arguments:
        arguments['kinematics_params_file'] = str(write(tmp_path / 'my_ur5.yaml', SHIPPED))
    actions, context = launched(**arguments)
    with pytest.raises(InvalidInput, match=words):
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


def nodes_of(domain):
    """Return the processes of our nodes in a DDS domain."""
    found = []
    for folder in Path('/proc').glob('[0-9]*'):
        try:
            if f'ROS_DOMAIN_ID={domain}\0' in (folder / 'environ').read_text():
                found.append((folder / 'cmdline').read_text())
        except (OSError, UnicodeDecodeError):
            continue
    return [line for line in found if any(f'/{name}\0' in line for name in OURS)]


@pytest.mark.nodes
@pytest.mark.usefixtures('launched')
def test_a_launch_that_is_killed_leaves_no_node_behind(ros_domain):
    environment = {**os.environ, 'ROS_DOMAIN_ID': str(ros_domain), 'ROS_LOG_DIR': '/tmp'}
    service = subprocess.Popen(['ros2', 'launch', str(LAUNCH_FILE)], cwd='/', env=environment)
    until(lambda: len(nodes_of(ros_domain)) >= len(OURS), 'the nodes', 30.0)
    time.sleep(1.0)
    service.kill()
    service.wait()
    until(lambda: not nodes_of(ros_domain), 'their end', 5.0)
