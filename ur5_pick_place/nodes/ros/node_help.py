# SPDX-License-Identifier: Apache-2.0
"""The `--help` text of each node: purpose, interfaces, main parameters, an example."""

_TEXT = {
    'ik_service': (
        'Serve inverse and forward kinematics: all eight analytic branches, by name.',
        {
            'compute_ik': 'the solution nearest to a seed (moveit_msgs/srv/GetPositionIK)',
            'compute_ik_all': 'every branch, and the reasons of missing ones (same type)',
            'compute_fk': 'the pose of joints (moveit_msgs/srv/GetPositionFK)',
        },
        {
            'ur_type': 'robot type, such as ur5',
            'kinematics_params_file': 'calibration file of the driver; empty: nominal',
            'scene_file': 'table, TCP, tool and boxes',
            'groups': 'names of planning groups for this arm',
        },
        'robot_sim.yaml -p use_sim_time:=true',
    ),
    'trajectory_planner': (
        'Plan motions and check every one; the only node that moves the arm.',
        {
            'plan_kinematic_path': 'AUTO, PTP, LIN, CIRC and more (moveit_msgs/srv/GetMotionPlan)',
            'compute_cartesian_path': 'a straight path (moveit_msgs/srv/GetCartesianPath)',
            'execute_trajectory': 'action (moveit_msgs/action/ExecuteTrajectory)',
            '~/delta_twist_cmds': 'jog the TCP [m/s, rad/s] (geometry_msgs/msg/TwistStamped)',
            '~/delta_joint_cmds': 'jog joints [rad/s] (control_msgs/msg/JointJog)',
            '~/stop, ~/rearm': 'stop the arm; allow motion again (std_srvs/srv/Trigger)',
            'move_action': 'action: plan and execute (moveit_msgs/action/MoveGroup)',
            'apply_planning_scene, get_planning_scene': 'services; and the scene topics',
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
        'robot_sim.yaml -p use_sim_time:=true',
    ),
    'pick_place': (
        'Teach, plan and run the pick-and-place task, through the planner.',
        {
            '~/teach_home, ~/teach_start, ~/teach_target': 'teach a place from the present joints',
            '~/<place>_pose': 'topic: teach a pose of the TCP (geometry_msgs/msg/PoseStamped)',
            '~/plan, ~/run, ~/pause, ~/resume, ~/stop, ~/rearm, ~/go_home': 'the cycle',
            '~/init_gripper, ~/open_gripper, ~/close_gripper': 'the gripper alone',
            'gripper_action_controller/gripper_command': 'control_msgs/action/GripperCommand',
            '~/freedrive': 'switch freedrive (std_srvs/srv/SetBool)',
            '~/state, ~/event': 'topics: the present state, and events (JSON)',
        },
        {
            'cycle_file': 'the stages, such as config/cycle.yaml',
            'poses_file': 'where taught poses are kept',
            'method': 'ik, resolved_rate or gradient',
            'gripper': 'digital, vacuum, action, or module:Class',
            'payload_mass': 'mass of the tool [kg]',
            'tool_voltage': 'supply voltage of the tool: 0, 12 or 24 [V]',
            'approach_height': 'height of the points above the places [m]',
        },
        'robot_sim.yaml -p use_sim_time:=true',
    ),
    'sim_driver': (
        'Simulate a cell with the interface of the UR driver: a UR arm, a gripper and cubes.',
        {
            'joint_states, io_and_status_controller/..., /tf, /clock': 'as the UR driver',
            '<controller>/follow_joint_trajectory': 'action of the controller',
            'sim_driver/faults/<name>': 'inject a fault (std_srvs/srv/SetBool)',
            'sim_driver/place_part, sim_driver/part_pose': 'place the cube; its true pose',
            'sim_driver/feed_part, switch_input, protective_stop, clear_faults': 'services',
        },
        {
            'ur_type': 'robot type, such as ur5e',
            'real_time_factor': 'simulated seconds per wall second',
            'controller': 'motion controller that is active at the start',
            'tf_prefix': 'prefix of joint names and frames',
            'publish_tf': 'publish the frames of the arm',
            'gripper': 'digital, vacuum or action',
        },
        'sim_driver.yaml',
    ),
    'cockpit': (
        'Serve the page that shows the cell and commands its nodes; prints its address.',
        {
            'http://127.0.0.1:8060/?token=...': 'the page, for those who have the token',
            'trajectory_planner/delta_twist_cmds, delta_joint_cmds': 'while a button is held',
            'pick_place/<place>_pose': 'where a handle was dragged',
        },
        {
            'host': 'address to serve on; on any but 127.0.0.1 other machines can open it',
            'port': 'port to serve on',
            'robot': 'sim, mock, ursim or real; ursim and real are announced in red',
            'scene_file': 'table, TCP, tool and boxes',
        },
        'robot_sim.yaml -p robot:=sim',
    ),
    'recorder': (
        'Hold the last minute in memory and write it at each stop, for `report`.',
        {
            '~/save': 'write now; the reply has the path (std_srvs/srv/Trigger)',
            'records_folder': 'record-<UTC>-stop.mcap and record-<UTC>-save.mcap, as rosbag2',
        },
        {
            'records_folder': 'where records are written',
            'record_duration': 'what a record contains [s]',
            'record_after_stop': 'how much of it is after the stop [s]',
            'max_records': 'files that are kept; the oldest go first',
            'max_records_size': 'their size together [MB]',
        },
        'recorder.yaml',
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
            'main parameters (the others: ros2 param describe; values: config/*.yaml):',
            *_rows(parameters),
            '',
            'Example:',
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
