# SPDX-License-Identifier: Apache-2.0
"""
Launch the cell: our nodes with the simulated robot or with the UR driver.

ros2 launch ur5_pick_place pick_place.launch.py robot:=sim rviz:=true
"""

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

from ament_index_python.packages import (
    PackageNotFoundError,
    get_package_prefix,
    get_package_share_directory,
)
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    ExecuteProcess,
    GroupAction,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
    Shutdown,
)
from launch.event_handlers import OnProcessIO
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import (
    Command,
    FindExecutable,
    LaunchConfiguration,
    PathJoinSubstitution,
)
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import ExecutableInPackage, FindPackageShare

from ur5_pick_place.config_files import read_parameters, user_path
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import UR_TYPES
from ur5_pick_place.kinematics.mounting import FLOOR, Mounting
from ur5_pick_place.kinematics.transforms import quat_from_matrix
from ur5_pick_place.nodes.cell.node_list import REMAPPINGS, ROBOTS, NodeSpec, node_list
from ur5_pick_place.nodes.cell.robot_settings import load_arm
from ur5_pick_place.nodes.ros.distro import distro
from ur5_pick_place.nodes.ros.entry_points import PARENT
from ur5_pick_place.sim.layouts import mounted_scene
from ur5_pick_place.task.grippers.registry import DEFAULT

PACKAGE = 'ur5_pick_place'
# Required packages, each with a path within its prefix.
DRIVER = (
    ('ur_robot_driver', 'share/ur_robot_driver/launch/ur_control.launch.py'),
    ('controller_manager', 'lib/controller_manager/spawner'),
)
DESCRIPTION = (
    ('ur_description', 'share/ur_description/urdf/ur.urdf.xacro'),
    ('robot_state_publisher', 'lib/robot_state_publisher/robot_state_publisher'),
)
RVIZ = ('rviz2', 'lib/rviz2/rviz2')
LEVEL = ('tf2_ros', 'lib/tf2_ros/static_transform_publisher')
ADDRESSES = {'ursim': '192.168.56.101', 'controller': '127.0.0.1'}
BOOLEAN = ['true', 'false']
FOLDER = tempfile.TemporaryDirectory(prefix='ur5_pick_place_')  # gone when the launch ends

# name: (default, description, choices)
ARGUMENTS = {
    'robot': (
        'sim',
        'sim: simulated cell; mock: UR driver with mock hardware; controller: UR driver with '
        'sim_controller, the simulated cell; ursim: with URSim; real: with the robot',
        list(ROBOTS),
    ),
    'driver': (
        'true',
        'start the UR driver; false: it runs already, here or on another PC',
        BOOLEAN,
    ),
    'ur_type': ('ur5', 'robot type, as for the UR driver', None),
    'mounting': (
        'floor',
        'how the base is mounted: floor, wall, ceiling, or its roll and pitch [deg], "0 30"',
        None,
    ),
    'robot_ip': (
        '',
        'address of the robot; for ursim 192.168.56.101, for controller 127.0.0.1 unless given',
        None,
    ),
    'rviz': ('false', 'start RViz', BOOLEAN),
    'cockpit': ('false', 'serve the cockpit, a page; its address is printed', BOOLEAN),
    'record': ('true', 'start the flight recorder: it writes a file at each stop', BOOLEAN),
    'namespace': ('', 'namespace of all nodes; only with robot:=sim', None),
    'tf_prefix': ('', 'prefix of joint names and frames', None),
    'controller': ('', 'trajectory controller; empty: the default of the UR driver', None),
    'kinematics_params_file': (
        '',
        'calibration file of the robot (absolute path), for driver and nodes; '
        'empty: nominal kinematics',
        None,
    ),
    'headless_mode': (
        'false',
        'the driver sends its program itself, as always to controller; needs no URCap',
        BOOLEAN,
    ),
    'params_file': ('', 'parameter file (absolute path) that overrides config/', None),
}


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; they are evaluated together at launch."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=text, choices=choices)
        for name, (default, text, choices) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])


def start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Return the actions for the arguments given."""
    given = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    for name in ('kinematics_params_file', 'params_file'):
        given[name] = given[name] and str(user_path(given[name]))
    share = Path(get_package_share_directory(PACKAGE))
    with_rviz = given['rviz'] == 'true'
    if given['ur_type'] not in UR_TYPES:
        raise InvalidInput(
            f'ur_type = {given["ur_type"]!r}: must be one of {", ".join(UR_TYPES)}'
        )
    of_driver = {'robot_ip': '', 'headless_mode': 'false', 'driver': 'true'}
    unfit = [f'{name}:={given[name]}' for name, value in of_driver.items() if given[name] != value]
    if given['robot'] == 'sim' and unfit:
        raise InvalidInput(
            f'{", ".join(unfit)}: only for the UR driver, which robot:=sim does not use: remove '
            'that, or set robot:=real, mock or ursim'
        )
    mounting = Mounting.read(given['mounting'])
    names = (
        *('namespace', 'ur_type', 'mounting', 'tf_prefix', 'controller'),
        'kinematics_params_file',
    )
    nodes = node_list(
        given['robot'],
        share / 'config',
        **{name: given[name] for name in names},
        params_file=given['params_file'],
        parameters={'sim_driver': {'publish_tf': not with_rviz}},
        cockpit={} if given['cockpit'] == 'true' else None,
        record=given['record'] == 'true',
        mounted_scene=None if mounting == FLOOR else partial(scene_of_cell, given),
    )
    actions: list[LaunchDescriptionEntity] = [our_node(spec) for spec in nodes]
    needed = []
    if given['robot'] != 'sim':
        if given['namespace']:
            raise InvalidInput(
                f'namespace = {given["namespace"]!r}: the UR driver expects /controller_manager; '
                'use tf_prefix and ROS_DOMAIN_ID for several robots'
            )
        if given['robot'] == 'controller':
            actions += simulated_controller(given)
        elif given['driver'] == 'true':
            actions.append(driver(given))
        if given['driver'] == 'true':
            needed = [*DRIVER, *DESCRIPTION]
    elif with_rviz:
        actions.append(robot_state_publisher(given))
        needed = [*DESCRIPTION]
    if with_rviz:
        actions += rviz(given, share, mounting)
        needed += [RVIZ] if mounting == FLOOR else [RVIZ, LEVEL]
    if needed or given['kinematics_params_file'] or given['params_file']:
        # Must be first: launch leaves processes running that it started before an error.
        check = OpaqueFunction(function=lambda _context: check_everything(given, needed))
        actions.insert(0, check)
    return actions


def check_everything(given: dict[str, str], needed: list[tuple[str, str]]) -> None:
    """
    Check that all files can be read and all required packages are installed.

    Parameters
    ----------
    given : dict
        The arguments.
    needed : list of (package, path within its prefix)
    """
    load_arm(given['ur_type'], given['kinematics_params_file'])
    if given['params_file']:
        read_parameters(Path(given['params_file']))
    missing = [f'{package} ({path})' for package, path in needed if not is_there(package, path)]
    if DESCRIPTION[0] in needed and not shutil.which('xacro'):
        missing.append('xacro (the command)')
    if missing:
        raise InvalidInput(
            f'not installed: {", ".join(missing)}; install them (rosdep install, or apt-get '
            'install ros-$ROS_DISTRO-ur) and source the workspace; nothing was started'
        )


def is_there(package: str, path: str) -> bool:
    try:
        return Path(get_package_prefix(package), path).exists()
    except (PackageNotFoundError, ValueError):
        return False


def scene_of_cell(given: dict[str, str], standing: Path) -> Path:
    """Return the scene file of the simulated cell with a mounted arm."""
    mounting = Mounting.read(given['mounting'])
    return mounted_scene(standing, given['ur_type'], mounting, Path(FOLDER.name))


def our_node(spec: NodeSpec) -> Node:
    # launch reads a bare string as YAML, in which '' is nothing.
    parameters = {
        name: ParameterValue(value, value_type=type(value))
        for name, value in spec.parameters.items()
    }
    return Node(
        package=PACKAGE,
        executable=spec.executable,
        namespace=spec.namespace,
        parameters=[*map(str, spec.parameter_files), parameters],
        remappings=list(spec.remappings),
        additional_env={PARENT: str(os.getpid())},  # ends the node with launch, even if killed
        output='screen',
        # Without the simulated cell the others would be left to whatever driver is there.
        on_exit=Shutdown() if spec.executable == 'sim_driver' else None,
    )


def simulated_controller(given: dict[str, str]) -> list[LaunchDescriptionEntity]:
    """Return the simulated controller, and the driver for when its ports are open."""
    own_file = given['params_file']
    own = read_parameters(Path(own_file), '/pick_place') if own_file else {}
    words = {
        '--ur-type': given['ur_type'],
        '--mounting': given['mounting'],
        '--host': given['robot_ip'] or ADDRESSES['controller'],
        '--gripper': own.get('gripper', DEFAULT),
    }
    executable = ExecutableInPackage('sim_controller', PACKAGE)
    process = ExecuteProcess(
        cmd=[executable, *(word for option in words.items() for word in option)],
        output='screen',
        on_exit=Shutdown(),
    )
    then = [driver(given)] if given['driver'] == 'true' else []
    opened = OnProcessIO(
        target_action=process, on_stdout=lambda event: then if b'ready' in event.text else None
    )
    return [RegisterEventHandler(opened), process]


def driver(given: dict[str, str]) -> GroupAction:
    """
    Include the UR driver's launch file.

    It inherits none of our launch configurations, as an empty `kinematics_params_file` would
    override its default.
    """
    robot, robot_ip = given['robot'], given['robot_ip']
    if robot == 'real' and not robot_ip:
        raise InvalidInput('robot_ip is missing: robot:=real requires the address of the robot')
    arguments = {
        'ur_type': given['ur_type'],
        'robot_ip': robot_ip or ADDRESSES.get(robot, '0.0.0.0'),
        'tf_prefix': given['tf_prefix'],
        'headless_mode': 'true' if robot == 'controller' else given['headless_mode'],
        'initial_joint_controller': given['controller'] or distro().controller,
        'launch_rviz': 'false',
        distro().mock_argument: 'true' if robot == 'mock' else 'false',
    }
    if given['kinematics_params_file']:
        arguments['kinematics_params_file'] = given['kinematics_params_file']
    file = PathJoinSubstitution(
        [FindPackageShare('ur_robot_driver'), 'launch', 'ur_control.launch.py']
    )
    include = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(file), launch_arguments=arguments.items()
    )
    return GroupAction([include], scoped=True, forwarding=False)


def robot_state_publisher(given: dict[str, str]) -> Node:
    """Return the robot_state_publisher of the simulated arm, for RViz."""
    xacro = PathJoinSubstitution([FindPackageShare('ur_description'), 'urdf', 'ur.urdf.xacro'])
    words = [
        FindExecutable(name='xacro'), ' ', xacro, ' name:=ur ur_type:=', given['ur_type'],
        ' tf_prefix:="', given['tf_prefix'], '"',
    ]
    description = ParameterValue(Command(words), value_type=str)
    return Node(
        package='robot_state_publisher',
        executable='robot_state_publisher',
        namespace=given['namespace'],
        parameters=[{'robot_description': description, 'use_sim_time': True}],
        remappings=list(REMAPPINGS),
    )


def rviz(given: dict[str, str], share: Path, mounting: Mounting) -> list[Node]:
    """Return RViz; of an arm that does not stand also a frame that is level, which it shows."""
    prefix = given['tf_prefix']
    frame = f'{prefix}base_link' if mounting == FLOOR else f'{prefix}base_link_level'
    shown = Node(
        package='rviz2',
        executable='rviz2',
        namespace=given['namespace'],
        arguments=[
            '--display-config', str(share / 'config' / 'pick_place.rviz'),
            '--fixed-frame', frame,
        ],
        parameters=[{'use_sim_time': given['robot'] == 'sim'}],
        remappings=list(REMAPPINGS),
        output='log',
    )
    if mounting == FLOOR:
        return [shown]
    words = ['--frame-id', f'{prefix}base_link', '--child-frame-id', frame]
    for axis, value in zip('xyzw', quat_from_matrix(mounting.R_up_base_link.T), strict=True):
        words += [f'--q{axis}', f'{value:.9f}']
    level = Node(
        package='tf2_ros',
        executable='static_transform_publisher',
        namespace=given['namespace'],
        arguments=words,
        remappings=list(REMAPPINGS),
    )
    return [level, shown]
