# SPDX-License-Identifier: Apache-2.0
"""Fingers behind an action server, as Robotiq's, and their joint: `gripper: action`."""

import math
from dataclasses import dataclass

from ur5_pick_place.errors import ExecutionError, InvalidInput, MissedGrasp
from ur5_pick_place.settings import check_ros_name, setting
from ur5_pick_place.task.grippers.base import (
    NO_FEEDBACK,
    SERVICE_TIMEOUT,
    Gripper,
    GripperSettings,
)
from ur5_pick_place.task.grippers.signals import PartSignal
from ur5_pick_place.task.job import GripperReport, MoveGripper, Observation, Steps, perform

GRIPPER_COMMAND, PARALLEL = 'gripper_command', 'parallel_gripper_command'
# Of one jaw or both, in m, mm, rad, percent or counts: whatever the server takes.
_UNIT, _MOST = "the server's unit", 1000.0
_KNOWN_WITHIN = 1.0  # [s] in which the joint of a gripper at rest must show whether it holds
_FRESH = 0.5  # [s] for which a position counts
_LATE = 1.5  # intervals for which a position of a slow joint counts
_REST = 0.15  # [s] without motion
_SLOWEST = 1.5  # [s] longest interval that is expected
_MISSED = 3.0  # intervals without a position after which the joint is silent
_FADING = 0.9  # factor on the longest interval at each new position
_STEP = 0.2  # of the position tolerance: more is motion


@dataclass(frozen=True)
class ActionSettings(GripperSettings):
    """The action server and its positions."""

    gripper_action: str = setting(
        'robotiq_gripper_controller/gripper_cmd', "name of the gripper's action"
    )
    gripper_action_type: str = setting(
        GRIPPER_COMMAND, 'its type, of control_msgs', choices=(GRIPPER_COMMAND, PARALLEL)
    )
    open_position: float = setting(
        0.0, 'position of the open gripper', unit=_UNIT, low=-_MOST, high=_MOST
    )
    close_position: float = setting(
        0.8,
        'position beyond the part, so that the fingers stall on it',
        unit=_UNIT,
        low=-_MOST,
        high=_MOST,
    )
    position_tolerance: float = setting(
        0.02,
        'largest deviation at which a position counts as reached',
        unit=_UNIT,
        low=1e-5,
        high=_MOST,
    )
    max_effort: float = setting(
        50.0,
        "largest effort of the fingers; 0 = the server's default",
        unit='N',
        low=0.0,
        high=1000.0,
    )
    part_positions: tuple[float, ...] = setting(
        (0.0, 0.0),
        'lowest and highest position of fingers that hold a part; equal: a stall verifies a grasp',
        unit=_UNIT,
        low=-_MOST,
        high=_MOST,
        length=2,
    )
    gripper_joint: str = setting(
        'robotiq_85_left_knuckle_joint',
        'joint of the gripper on joint_states, which shows a part that is lost; empty: none',
    )
    gripper_timeout: float = setting(
        5.0, 'timeout for the end of a goal', unit='s', low=0.1, high=60.0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ros_name('gripper_action', self.gripper_action)
        apart, tolerance = abs(self.close_position - self.open_position), self.position_tolerance
        if apart <= 2.0 * tolerance:
            raise InvalidInput(
                f'open_position = {self.open_position} and close_position = '
                f'{self.close_position}: must be more than 2 position_tolerance = '
                f'{2.0 * tolerance} apart'
            )
        low, high = self.part_positions
        if low > high:
            raise InvalidInput(f'part_positions = [{low}, {high}]: must be [low, high]')
        first, last = sorted([self.open_position, self.close_position])
        if low < high and not first + tolerance < low < high < last - tolerance:
            raise InvalidInput(
                f'part_positions = [{low}, {high}]: must lie between open_position = '
                f'{self.open_position} and close_position = {self.close_position}, more than '
                f'position_tolerance = {tolerance} from both: fingers that close on nothing must '
                'not count as holding a part'
            )


def no_server(settings: ActionSettings) -> str:
    """Return the reason why no goal can be sent."""
    return (
        f'action server {settings.gripper_action} ({settings.gripper_action_type}) is not there: '
        "start the gripper's driver, or check gripper_action and its type"
    )


def rejected(settings: ActionSettings, command: MoveGripper) -> str:
    """Return the reason why a goal was not accepted."""
    return (
        f'{settings.gripper_action} rejected the goal of position {command.position:g}: check '
        'open_position and close_position, and the log of the gripper'
    )


class ActionGripper(Gripper):
    """
    A client of a gripper's action; see `Gripper`.

    A grasp is verified if the action reports `stalled`, or by a position within `part_positions`.
    The gripper's joint, if it is published, must agree; it also detects the loss of a part.
    """

    settings_type = ActionSettings
    loss_text = 'the finger position shows no part'
    releases_at_once = False  # a goal that was accepted may still be aborted

    def __init__(self, settings: ActionSettings, voltage: int | None) -> None:
        super().__init__(settings, voltage)
        self.settings: ActionSettings = settings
        self._target: float | None = None  # of a goal whose end has not been seen
        self._deadline = 0.0
        self._gripped: float | None = None  # where the joint last rested on a part

    def initialise(self) -> Steps[None]:
        """Switch the tool supply on if it is configured, and wait for the action server."""
        if self.voltage is not None:
            yield from super().initialise()
        seen = yield None
        deadline = seen.t + SERVICE_TIMEOUT
        while not seen.gripper.is_there:
            if seen.t > deadline:
                raise ExecutionError(no_server(self.settings))
            seen = yield None

    def begin_closing(self) -> Steps[None]:
        """Send the goal and wait until it is accepted."""
        self._check_can_close((yield None))
        yield from self._send(self.settings.close_position)

    def begin_opening(self, is_holding: bool = False, is_moving: bool = False) -> Steps[None]:
        yield from self._send(self.settings.open_position)

    def await_fingers(self) -> Steps[None]:
        """Wait for the result; the grip is then known, unless it missed."""
        seen = yield None
        while not self._has_ended(seen):
            seen = yield None
        is_closed = bool(seen.gripper.report and self._is_to_close(seen.gripper.report))
        if is_closed and self.settings.grip_feedback != NO_FEEDBACK:
            seen = yield from self._await_level()
        self.is_grip_known = not is_closed or self.part_signal(seen) is not False

    def opens_in(self, seen: Observation) -> float:
        """Return infinity until the action has reached `open_position`, then 0."""
        return 0.0 if self._has_ended(seen) else math.inf

    def expect_part(self) -> Steps[None]:
        if self.settings.grip_feedback == NO_FEEDBACK:
            return
        seen = yield from self._await_level()
        report, level = seen.gripper.report, self.part_signal(seen)
        if silence := self.silence(seen):
            raise ExecutionError(silence)
        if level is None:
            raise ExecutionError(f'{self._name} does not show whether a part is held: check it')
        if not level:
            raise MissedGrasp(f'the gripper closed on nothing: {self._report_text(seen)}')
        if report and not self._is_grip(report):
            raise ExecutionError(
                f'{self._name} reports no part, but its joint shows one: '
                f'{self._report_text(seen)}; check the gripper'
            )

    def expect_no_part(self) -> Steps[None]:
        seen = yield None
        if self.settings.grip_feedback == NO_FEEDBACK and not self.is_closed(seen):
            return
        if self.settings.grip_feedback != NO_FEEDBACK:
            seen = yield from self._await_level()
        if self.part_signal(seen):
            raise ExecutionError(f'the gripper still holds a part: {self._report_text(seen)}')
        if self.part_signal(seen) is None:
            raise ExecutionError(
                'nothing shows whether the gripper holds a part: check, and open it with '
                '~/open_gripper'
            )

    def part_signal(self, seen: Observation) -> bool | None:
        """Return what the gripper's joint shows, else what the last goal has proved."""
        view, s = seen.gripper, self.settings
        if s.grip_feedback == NO_FEEDBACK:
            return None
        if view.position is not None and view.is_still:
            holds = self._holds_at(view.position)
            self._gripped = view.position if holds else None
            return holds
        if view.position is not None:  # fingers that leave the part show it before they rest
            at = self._gripped
            return None if at is None or self._is_at(view.position, at) else False
        if view.is_silent or view.report is None or not view.report.ended:
            return None
        if self._is_to_close(view.report):
            return self._is_grip(view.report)
        return False if self._is_at(view.report.position, s.open_position) else None

    def is_closed(self, seen: Observation) -> bool:
        """Return whether joint or last goal show the fingers away from `open_position`."""
        view = seen.gripper
        if view.position is not None:
            return not self._is_at(view.position, self.settings.open_position)
        return view.report is not None and self._is_to_close(view.report)

    def is_open(self, seen: Observation) -> bool:
        """Return whether joint or last goal show the fingers at `open_position`."""
        view, at = seen.gripper, self.settings.open_position
        if view.report and not view.report.ended:
            return False
        if view.position is not None:
            return view.is_still and self._is_at(view.position, at)
        return view.report is not None and self._is_at(view.report.position, at)

    def is_known(self, seen: Observation) -> bool:
        """Return whether the joint is published, or a goal was sent."""
        view = seen.gripper
        return view.report is not None or (view.position is not None and view.is_still)

    def readiness(self, seen: Observation) -> tuple[str, str]:
        server = f'action server {self._name} ({self.settings.gripper_action_type})'
        if seen.gripper.is_there:
            return f'{server} is there', ''
        return f'{server} is not there', (
            "start the gripper's driver, or correct gripper_action and gripper_action_type"
        )

    def why_not(self, is_to_close: bool, seen: Observation) -> str:
        lack = self._lack_of_supply(seen) if is_to_close else ''
        return lack or ('' if seen.gripper.is_there else no_server(self.settings))

    def silence(self, seen: Observation) -> str:
        s, blind = self.settings, 'cannot see whether the part is held'
        if s.grip_feedback == NO_FEEDBACK:
            return ''
        if seen.gripper.is_silent:
            return f"{s.gripper_joint} is silent: {blind}; check the gripper's driver"
        return '' if seen.gripper.is_there else f'{blind}: {no_server(s)}'

    def signal(self) -> PartSignal:
        return PartSignal(f'{self._name}: whether a part is held')

    # -- goals -----------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return self.settings.gripper_action

    def _send(self, position: float) -> Steps[None]:
        self._target, self._signal, self.is_grip_known = None, self.signal(), False
        self._gripped = None
        goal = MoveGripper(position, self.settings.max_effort, SERVICE_TIMEOUT)
        seen = yield from perform(
            goal,
            SERVICE_TIMEOUT,
            f'action server {self._name} did not answer a goal within {SERVICE_TIMEOUT} s: check '
            "the gripper's driver",
        )
        self._target, self._deadline = position, seen.t + self.settings.gripper_timeout
        self.fingers_done_at = self._deadline

    def _has_ended(self, seen: Observation) -> bool:
        """
        Return whether the goal that was sent has ended as it should.

        Raises `ExecutionError`: it has ended otherwise, its server has gone, or it takes too long.
        """
        if self._target is None:
            return True
        report, goal = seen.gripper.report, f'the goal of position {self._target:g}'
        if report is None or not report.ended:
            if not seen.gripper.is_there:
                raise ExecutionError(
                    f"action server {self._name} has gone during {goal}: check the gripper's "
                    'driver, and look whether it holds a part'
                )
            if seen.t > self._deadline:
                raise ExecutionError(
                    f'{self._name} has not ended {goal} within gripper_timeout = '
                    f'{self.settings.gripper_timeout:g} s: check the gripper'
                )
            return False
        self._target = None
        if not math.isfinite(report.position):
            raise ExecutionError(
                f'{self._name} reports position {report.position} at the end of {goal}: must be '
                'a finite number; check the gripper'
            )
        has_stalled = report.ended == 'aborted' and report.stalled  # as some end a grip
        if report.ended != 'succeeded' and not has_stalled:
            raise ExecutionError(
                f'{self._name} has {report.ended} {goal} at {report.position:.3g}: check the '
                'gripper, and whether another client commands it'
            )
        if not self._is_to_close(report) and not self._is_at(report.position, report.target):
            raise ExecutionError(
                f'the gripper opened only to {report.position:.3g}, not to open_position = '
                f'{report.target:g}: check what blocks its fingers'
            )
        return True

    # -- what positions mean ---------------------------------------------------------------------

    def _is_at(self, position: float, target: float) -> bool:
        return abs(position - target) <= self.settings.position_tolerance

    def _is_to_close(self, report: GripperReport) -> bool:
        return report.target == self.settings.close_position

    def _is_grip(self, report: GripperReport) -> bool:
        low, high = self.settings.part_positions
        if low < high:
            return low <= report.position <= high
        # Fingers that have not begun to move stall too.
        return report.stalled and not self._is_at(report.position, self.settings.open_position)

    def _holds_at(self, position: float) -> bool:
        """Return whether fingers at rest at `position` have a part between them."""
        s = self.settings
        low, high = s.part_positions
        if self._is_at(position, s.open_position):
            return False
        return low <= position <= high if low < high else not self._is_at(
            position, s.close_position
        )

    def _await_level(self) -> Steps[Observation]:
        """Return the observation with which `part_signal` is stable, or the last one in time."""
        seen = yield None
        end = seen.t + _KNOWN_WITHIN
        while self._signal.update(seen.t, self.part_signal(seen)) is None and seen.t < end:
            seen = yield None
        return seen

    def _report_text(self, seen: Observation) -> str:
        view = seen.gripper
        parts = []
        if view.report:
            how = 'stalled' if view.report.stalled else 'not stalled'
            parts.append(f'{self._name} ended at {view.report.position:.3g}, {how}')
        if view.position is not None:
            parts.append(f'{self.settings.gripper_joint} is at {view.position:.3g}')
        return ', '.join(parts) or f'{self._name} has reported nothing'


class GripperJoint:
    """
    Follows a gripper's joint; times are of any one clock [s].

    - `tolerance`: `position_tolerance` of the gripper
    - `timeout`: shortest time without a position after which the joint is silent [s]; longer for a
      slow joint, and never below 0.5 s
    """

    def __init__(self, tolerance: float, timeout: float = _FRESH) -> None:
        self._step, self._timeout = _STEP * tolerance, timeout
        self._position, self._at = math.nan, -math.inf
        self._interval = 0.0  # [s] the longest between positions, fading slowly
        self._rest, self._since = math.nan, -math.inf

    def update(self, t: float, position: float) -> None:
        """Take a position at time `t`; one that is not finite is ignored."""
        if not math.isfinite(position):
            return
        if t - self._at > self._lasting or not abs(position - self._rest) <= self._step:
            self._rest, self._since = position, t
        if math.isfinite(self._at):
            self._interval = max(t - self._at, _FADING * self._interval)
        self._position, self._at = position, t

    def forget(self) -> None:
        """Judge a slow joint anew: its latest position is from before a goal began or ended."""
        if self._is_slow:
            self._rest, self._since = math.nan, self._at

    def position(self, now: float) -> float | None:
        """Return the position; None if too old, or if the joint is slow and has not rested."""
        is_known = now - self._at <= self._lasting and (self._has_rested or not self._is_slow)
        return self._position if is_known else None

    def is_still(self, now: float) -> bool:
        """Return whether the joint has rested for a while."""
        return self.position(now) is not None and self._has_rested

    @property
    def _has_rested(self) -> bool:
        return self._at - self._since >= _REST

    @property
    def _is_slow(self) -> bool:
        """Whether it is published so seldom, as once a second, that two positions must agree."""
        return self._interval > _FRESH

    @property
    def _lasting(self) -> float:
        """For how long a position counts [s]."""
        return _LATE * min(self._interval, _SLOWEST) if self._is_slow else _FRESH

    def is_silent(self, now: float) -> bool:
        """
        Return whether positions were received before, but none lately.

        Lately is within `timeout`, 0.5 s or three usual intervals, whichever is longest.
        """
        usual = min(self._interval, _SLOWEST)
        timeout = max(self._timeout, _FRESH, _MISSED * usual)
        return now - self._at > timeout and math.isfinite(self._at)
