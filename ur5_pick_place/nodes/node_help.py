# SPDX-License-Identifier: Apache-2.0
"""The `--help` text of each node: purpose, interfaces, main parameters, an example."""

_TEXT = {
    'ik_service': (
        'Serves inverse and forward kinematics: all eight analytic branches, by name.',
        {
            'compute_ik': 'the solution nearest to a seed (moveit_msgs/srv/GetPositionIK)',
            'compute_ik_all': 'every branch, and the reasons of missing ones',
            'compute_fk': 'the pose of joints (moveit_msgs/srv/GetPositionFK)',
        },
        {
            'ur_type': 'robot type, such as ur5',
            'kinematics_params_file': 'calibration file of the driver; empty: nominal',
            'scene_file': 'table, TCP, tool and boxes',
            'groups': 'names of planning groups for this arm',
        },
        'robot_sim.yaml',
    ),
    'trajectory_planner': (
        'Plans motions, checks every one, and is the only node that moves the arm.',
        {
            'plan_kinematic_path': 'AUTO, PTP, LIN, CIRC and more (moveit_msgs/srv/GetMotionPlan)',
            'compute_cartesian_path': 'a straight path (moveit_msgs/srv/GetCartesianPath)',
            'execute_trajectory': 'action (moveit_msgs/action/ExecuteTrajectory)',
            '~/stop, ~/rearm': 'stop the arm; allow motion again (std_srvs/srv/Trigger)',
            '~/motion_state': 'topic: ready, moving, or stopped: <reason>',
        },
        {
            'ur_type': 'robot type, such as ur5',
            'scene_file': 'table, TCP, tool and boxes',
            'payload_mass': 'mass of the tool [kg]',
            'max_speed': 'limit on the speed of TCP and elbow [m/s]',
            'velocity_scaling': 'fraction of the limits where a request gives 0',
            'joint_state_timeout': 'largest age of joint_states for a motion to start [s]',
        },
        'robot_sim.yaml',
    ),
    'pick_place': (
        'Teaches, plans and runs the pick-and-place task, through the planner.',
        {
            '~/teach_home, ~/teach_start, ~/teach_target': 'teach a place from the present joints',
            '~/plan, ~/run, ~/pause, ~/resume, ~/stop, ~/rearm, ~/go_home': 'the cycle',
            '~/init_gripper, ~/open_gripper, ~/close_gripper': 'the gripper alone',
            '~/freedrive': 'switch freedrive (std_srvs/srv/SetBool)',
            '~/state, ~/event': 'topics: the present state, and events (JSON)',
        },
        {
            'cycle_file': 'the stages, such as config/cycle.yaml',
            'poses_file': 'where taught poses are kept',
            'method': 'ik, resolved_rate or gradient',
            'payload_mass': 'mass of the tool [kg]',
            'tool_voltage': 'supply voltage of the tool: 0, 12 or 24 [V]',
            'approach_height': 'height of the points above the places [m]',
        },
        'robot_sim.yaml',
    ),
    'sim_driver': (
        'The simulated cell: the interface of the UR driver with a UR5, a gripper and a cube.',
        {
            'joint_states, io_and_status_controller/..., /tf, /clock': 'as the UR driver',
            '<controller>/follow_joint_trajectory': 'action of the controller',
            'sim_driver/faults/<name>': 'inject a fault (std_srvs/srv/SetBool)',
            'sim_driver/place_part, sim_driver/part_pose': 'place the cube; its true pose',
        },
        {
            'real_time_factor': 'simulated seconds per second',
            'controller': 'motion controller that is active at the start',
            'tf_prefix': 'prefix of joint names and frames',
            'publish_tf': 'publish the frames of the arm',
            'faults': 'file with a schedule of faults',
        },
        'sim_driver.yaml',
    ),
}


def node_help(name: str) -> str:
    """Return the text for a node's executable."""
    about, offers, parameters, file = _TEXT[name]
    return '\n'.join(
        [
            f'usage: {name} [--help] [--ros-args ...]',
            '',
            about,
            '',
            'offers:',
            *_rows(offers),
            '',
            f'main parameters (all, with units and reasons: config/{name}.yaml and robot_*.yaml):',
            *_rows(parameters),
            '',
            'example:',
            f'  ros2 run ur5_pick_place {name} --ros-args --params-file config/{file}',
            '  (without ROS .venv/bin/' + name + ' ...; all nodes of a cell: make demo, or',
            '  ros2 launch ur5_pick_place pick_place.launch.py)',
        ]
    )


def _rows(entries: dict[str, str]) -> list[str]:
    rows = []
    for name, text in entries.items():
        rows += [f'  {name:24}{text}'] if len(name) < 24 else [f'  {name}', f'{"":26}{text}']
    return rows
