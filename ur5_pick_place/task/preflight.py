# SPDX-License-Identifier: Apache-2.0
"""Is a cell ready to move? Each check gives what was found, and what to do; without ROS."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ur5_pick_place.control.motion_state import MotionState, parse_motion_state
from ur5_pick_place.control.robot_status import SAFETY_REDUCED, RobotStatus, mode_fault
from ur5_pick_place.errors import fixed, one_line
from ur5_pick_place.kinematics.model import ARMS, UR_TYPES
from ur5_pick_place.kinematics.transforms import Array, pose_distance

NODES = ('ik_service', 'trajectory_planner', 'pick_place')
"""The nodes of a cell, besides the driver."""
SHARED = (
    'use_sim_time',
    'ur_type',
    'kinematics_params_file',
    'tf_prefix',
    'mounting',
    'scene_file',
    'controller',
    'payload_mass',
    'rated_payload',
    'limits_confirmed',
    'payload_centre',
    'tool_voltage',
)
"""Parameters that must be equal in all nodes that have them."""
_GIVEN = ('scene_file', 'payload_mass', 'tool_voltage')
OWN = {
    'ik_service': (),
    'trajectory_planner': ('check_modes', 'joint_state_timeout'),
    'pick_place': ('check_modes', 'confirm_pins'),
}
"""Further parameters that the checks read, by node."""
_SLOWEST = 100.0  # [Hz] of the driver's 125
_OLDEST = 0.5  # [s] of joints on arrival; more is a clock that is wrong
_SAME = (1e-3, np.deg2rad(0.1))  # [m], [rad] by which TF and our kinematics may differ
_OTHER_ROBOT = 'give ur_type of this robot and its calibration file, or connect to the other robot'
_FEW = 10  # joint_states at least


@dataclass
class Observed:
    """What was seen of a cell; empty or None where nothing was."""

    where: str = ''  # domain, namespace, middleware and range of discovery, as text
    # how many nodes offer the services of each of `NODES`
    servers: dict[str, int] = field(default_factory=dict)
    # values by node and name; None where a parameter is not set
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    task_state: str | None = None
    motion_state: str | None = None
    robot_mode: int | None = None
    safety_mode: int | None = None
    program_running: bool | None = None
    robot_model: str = ''  # what the dashboard calls the robot, such as 'UR5'
    driver_refusal: str = ''  # how the driver's own verification refuses the robot; empty if not
    scaling: float | None = None  # speed scaling, 0 to 1
    controllers: dict[str, str] | None = None  # state of each controller by name
    # how many nodes offer each of the services that one driver alone may offer
    driver_servers: dict[str, int] = field(default_factory=dict)
    # arrivals, stamps, ages: of joint_states of this arm: steady clock [s], ROS time [s], and age
    # on arrival [s]
    arrivals: list[float] = field(default_factory=list)
    stamps: list[float] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)
    bad_joints: str = ''  # what was wrong with one of them
    # T_tf, T_fk: (4, 4) tool0 in `base` by TF, and by the kinematics of our nodes at the joints of
    # that time
    T_tf: Array | None = None
    T_fk: Array | None = None
    T_tcp: Array | None = None  # (4, 4) the TCP in tool0
    # what the task node reports of its gripper, and what to do; empty if all is well
    gripper: str = ''
    gripper_advice: str = ''
    tool_voltage: int | None = None  # as tool_data shows it [V]
    objects: list[str] | None = None  # names in the planning scene
    refused: str = ''  # why the scene blocks every motion; empty if it does not
    # why what a node publishes does not reach `NODES`, by topic
    unheard: dict[str, str] = field(default_factory=dict)
    why_no_stream: str = ''  # why the planner refuses jogs and closed loops; empty if it does not

    def parameter(self, name: str, node: str = 'trajectory_planner') -> Any:
        """Return a parameter's value; None if it was not read or is not set."""
        return self.parameters.get(node, {}).get(name)


@dataclass(frozen=True)
class Check:
    """One line of the answer."""

    name: str  # what was checked
    found: str
    advice: str = ''  # what to do; empty if all is well

    @property
    def is_ok(self) -> bool:
        """Whether nothing needs to be done."""
        return not self.advice

    def __str__(self) -> str:
        return f'{self.name}: {self.found}{f"; {self.advice}" if self.advice else ""}'


def check_all(seen: Observed) -> list[Check]:
    """Return every check in the order in which to solve problems; two if nothing is seen."""
    found = [check(seen) for check in _CHECKS]
    return found if any(seen.servers.values()) or seen.arrivals else [*found[:2]]


def _reachability(seen: Observed) -> Check:
    if not any(seen.servers.values()) and not seen.arrivals:
        return Check(
            'network', f'no node discovered on {seen.where}',
            'start the cell, or use its ROS_DOMAIN_ID, namespace, RMW_IMPLEMENTATION and range of '
            'discovery, and open UDP in the firewall: docs/howto/two_pcs.md',
        )
    return Check('network', seen.where)


def _nodes(seen: Observed) -> Check:
    missing = [name for name in NODES if not seen.servers.get(name)]
    several = [f'{name} {n} times' for name, n in seen.servers.items() if n > 1]
    if missing:
        return Check('nodes', f'{", ".join(missing)} not found', 'start them; see their logs')
    if several:
        return Check('nodes', ', '.join(several), 'stop all but one, or give each a namespace')
    if silent := [name for name in NODES if name not in seen.parameters]:
        return Check('nodes', f'{", ".join(silent)} silent', 'restart them; see their logs')
    return Check('nodes', f'{", ".join(NODES)}, one each')


def _settings(seen: Observed) -> Check:
    for name in SHARED:
        values = {n: p[name] for n, p in seen.parameters.items() if name in p}
        if len({repr(value) for value in values.values()}) > 1:
            each = ', '.join(f'{value!r} in {node}' for node, value in values.items())
            return Check('settings', f'{name} = {each}', 'give all nodes the same file')
    missing = [name for name in _GIVEN if seen.parameter(name) in (None, '')]
    if missing:
        return Check(
            'settings', f'{", ".join(missing)} not given', 'set them in a parameter file: '
            'docs/tutorials/first_hour.md, section 2',
        )
    mass, centre = seen.parameter('payload_mass'), seen.parameter('payload_centre')
    at = ', '.join(f'{v:g}' for v in centre or ())
    return Check('settings', f'equal in all nodes; payload {mass:g} kg at ({at}) m')


def _type(seen: Observed) -> Check:
    ur_type, model = str(seen.parameter('ur_type') or '?'), seen.robot_model
    if seen.driver_refusal:
        return Check('type', f'the driver refuses the robot: {seen.driver_refusal}', _OTHER_ROBOT)
    if not model:
        return Check(
            'type', f'{ur_type}; the robot does not tell its own (no dashboard, or PolyScope X): '
            'compare a pose with the pendant',
        )
    alike = [name for name in UR_TYPES if _number(model) in _numbers(name)]
    if _number(model) in ('', *_numbers(ur_type)):
        others = ', '.join(name for name in alike if name != ur_type)
        apart = f', as may {others}: compare its label' if others else ''
        return Check('type', f'{ur_type}; the robot calls itself {model}{apart}')
    return Check(
        'type', f'{ur_type}, but the robot calls itself {model}', _OTHER_ROBOT
    )


def _mounting(seen: Observed) -> Check:
    how = seen.parameter('mounting') or 'floor'
    return Check(
        'mounting', f'{how}; the driver does not tell that of the robot: compare with Mounting in '
        'the installation on the pendant',
    )


def _numbers(ur_type: str) -> tuple[str, str]:
    # At the dashboard a robot may have the number of the type whose links it has.
    return _number(ur_type), _number(ARMS.get(ur_type, {}).get('like', ur_type))


def _number(robot: str) -> str:
    found = re.search(r'\d+', robot)
    return found[0] if found else ''


def _robot(seen: Observed) -> Check:
    status = RobotStatus(
        robot_mode=seen.robot_mode,
        safety_mode=seen.safety_mode,
        program_running=seen.program_running,
    )
    if fault := mode_fault(status, seen.parameter('check_modes') is not False):
        found, _, advice = fault.partition('; ')
        return Check('robot', found, advice or 'look at the pendant')
    if seen.robot_mode is None:
        return Check('robot', 'publishes no modes (check_modes: false), for mock hardware only')
    safety = 'REDUCED' if seen.safety_mode == SAFETY_REDUCED else 'NORMAL'
    return Check('robot', f'running, safety mode {safety}, program running')


def _controller(seen: Observed) -> Check:
    wanted = seen.parameter('controller')
    for service, count in seen.driver_servers.items():
        if count > 1:
            return Check(
                'controller', f'{count} nodes offer {service}, and either may answer',
                "end one, or start a gripper's driver in a namespace of its own; one that was "
                'killed is seen for up to 20 s',
            )
    if seen.controllers is None:
        return Check(
            'controller', 'controller_manager does not answer',
            'start the driver; if it has ended, its log says why: with verify_robot_model it '
            'refuses a robot of another type than ur_type',
        )
    if seen.controllers.get(wanted) != 'active':
        state = seen.controllers.get(wanted, 'not loaded')
        active = ', '.join(n for n, s in seen.controllers.items() if s == 'active') or 'none'
        # An active one would hold the arm where it is now, and pull it back at Play.
        is_judged = seen.program_running is not None or seen.parameter('check_modes') is not False
        is_stopped = is_judged and not seen.program_running
        return Check(
            'controller', f'{wanted} is {state}; active: {active}',
            'press Play on the pendant: the driver then activates it' if is_stopped
            else f'ros2 control switch_controllers --activate {wanted}',
        )
    if seen.why_no_stream:
        found, _, advice = seen.why_no_stream.rpartition(': ')
        return Check('controller', f'{wanted} is active; {found}', advice)
    return Check('controller', f'{wanted} is active')


def _joints(seen: Observed) -> Check:
    name = 'joint_states'
    if seen.bad_joints:
        return Check(name, seen.bad_joints, 'check what else publishes joints of this arm')
    if len(seen.arrivals) < _FEW:
        return Check(name, f'{len(seen.arrivals)} messages', 'start the driver, check its link')
    rate = (len(seen.stamps) - 1) / max(seen.stamps[-1] - seen.stamps[0], 1e-9)
    gap = float(np.diff(seen.arrivals).max())
    text = f'{rate:.0f} Hz, largest gap {1e3 * gap:.0f} ms'
    if min(np.diff(seen.stamps)) < 0.0:
        return Check(name, 'stamps run backwards', 'stop the second driver that publishes them')
    if rate < _SLOWEST:
        return Check(name, text, 'at least 100 Hz are needed: check the link, and the load here')
    if gap > (limit := seen.parameter('joint_state_timeout') or np.inf):
        return Check(name, f'{text}, allowed {1e3 * limit:g} ms', 'this PC or the link stalls: '
                     'end other programs, use a cable')
    return Check(name, text)


def _clock(seen: Observed) -> Check:
    if not seen.ages:
        return Check('clock', 'not checked, as there are no joint_states', 'see joint_states')
    age = float(np.median(seen.ages))
    if abs(age) > _OLDEST:
        return Check(
            'clock', f'joints are {age:.2f} s old on arrival',
            'synchronise the PCs (chrony), and give all nodes the same use_sim_time',
        )
    return Check('clock', f'joints are {1e3 * age:.0f} ms old on arrival')


def _topics(seen: Observed) -> Check:
    if seen.unheard:
        return Check('topics', '; '.join(f'{topic}: {why}' for topic, why in seen.unheard.items()),
                     'publish them reliable, in the right type: none of these messages arrives')
    return Check('topics', 'whatever is published for these nodes can arrive')


def _states(seen: Observed) -> Check:
    state, reason = parse_motion_state(seen.motion_state or '')
    if seen.motion_state is None or seen.task_state is None:
        return Check('states', 'not received', 'restart planner and task node; see their logs')
    if state is MotionState.STOPPED or seen.task_state.startswith('stopped'):
        why = reason or seen.task_state.partition(': ')[2]
        return Check('states', f'stopped: {why}', 'remove the cause, then call pick_place/rearm')
    if state is not MotionState.READY or seen.task_state not in ('idle', 'planned'):
        found = f'planner {seen.motion_state}, task {seen.task_state}'
        return Check('states', found, 'wait for the end of what is under way, or stop it')
    return Check('states', f'planner ready, task {seen.task_state}')


def _calibration(seen: Observed) -> Check:
    name = 'calibration'
    if seen.T_tf is None:
        return Check(name, 'TF does not know tool0 in base_link',
                     'start robot_state_publisher (the driver does), with the same tf_prefix')
    if seen.T_fk is None:
        return Check(name, 'compute_fk does not answer', 'start ik_service')
    away, turn = pose_distance(seen.T_fk, seen.T_tf)
    text = f'TF and our kinematics differ by {1e3 * away:.2f} mm, {np.rad2deg(turn):.2f} deg'
    if away > _SAME[0] or turn > _SAME[1]:
        return Check(name, text, 'give driver and nodes the same ur_type and '
                     'kinematics_params_file, and leave the arm at rest')
    return Check(name, text)


def _tcp(seen: Observed) -> Check:
    if seen.T_tcp is None:
        return Check('TCP', 'unknown', 'set scene_file, with tool.tcp')
    x, y, z = (fixed(v, 4) for v in seen.T_tcp[:3, 3])
    return Check('TCP', f'({x}, {y}, {z}) m in tool0')


def _voltage(seen: Observed) -> Check:
    wanted, name = seen.parameter('tool_voltage'), 'tool voltage'
    if seen.parameter('confirm_pins', 'pick_place') is False:
        return Check(name, 'not checked (confirm_pins: false), for mock hardware only')
    if seen.tool_voltage is None:
        return Check(name, 'tool_data not received', 'is io_and_status_controller active?')
    if seen.tool_voltage not in (0, wanted):
        return Check(name, f'{seen.tool_voltage} V, tool_voltage is {wanted} V',
                     'correct tool_voltage before init_gripper: 24 V can destroy a 12 V gripper')
    later = '' if seen.tool_voltage == wanted else f', init_gripper switches to {wanted} V'
    return Check(name, f'{seen.tool_voltage} V{later}')


def _gripper(seen: Observed) -> Check:
    if not seen.gripper:
        return Check('gripper', 'not received', 'restart pick_place; see its log')
    return Check('gripper', seen.gripper, seen.gripper_advice)


def _slider(seen: Observed) -> Check:
    if seen.scaling is None:
        return Check('speed slider', 'speed scaling not received', 'start the driver')
    if seen.scaling <= 0.0:
        return Check('speed slider', '0 %', 'raise the slider on the pendant, or press Play')
    return Check('speed slider', f'{100.0 * seen.scaling:.0f} %')


def _scene(seen: Observed) -> Check:
    if seen.objects is None:
        return Check('scene', 'not received', 'restart trajectory_planner; see its log')
    if seen.refused:
        return Check('scene', seen.refused, 'remove or replace that object')
    names = ', '.join(seen.objects) or 'none'
    return Check('scene', f'objects of clients: {names}')


_CHECKS: tuple[Callable[[Observed], Check], ...] = (
    _reachability,
    _nodes,
    _settings,
    _type,
    _mounting,
    _clock,
    _joints,
    _robot,
    _controller,
    _slider,
    _calibration,
    _tcp,
    _voltage,
    _gripper,
    _scene,
    _topics,
    _states,
)


def verdict(checks: Sequence[Check]) -> str:
    failed = sum(not check.is_ok for check in checks)
    if not failed:
        return 'ready to move'
    return f'{failed} check{"s" if failed > 1 else ""} failed'


def report_lines(checks: Sequence[Check], colours: Mapping[bool, str]) -> Iterator[str]:
    """Return the lines of a report; `colours` has the prefix of a passed and of a failed check."""
    end = '\x1b[0m' if any(colours.values()) else ''
    for check in checks:
        mark = 'ok' if check.is_ok else 'FAIL'
        yield f'{colours[check.is_ok]}{mark}{end}  {check.name:<13} {one_line(check.found)}'
        if check.advice:
            yield f'                    -> {one_line(check.advice)}'
