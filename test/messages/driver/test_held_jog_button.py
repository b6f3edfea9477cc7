# SPDX-License-Identifier: Apache-2.0
"""A jog begins only while its commands can be read; what cannot be read is named."""

from types import SimpleNamespace

import numpy as np
import pytest
from control_msgs.msg import JointJog
from geometry_msgs.msg import TwistStamped
from motion_planners import make_planner
from rclpy.serialization import serialize_message
from std_srvs.srv import SetBool

from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.errors import UnknownFrame
from ur5_pick_place.kinematics import HOME, JOINT_NAMES
from ur5_pick_place.nodes.trajectory_planner import jogging


def twist(y=0.0, frame='', stamp=None):
    message = TwistStamped()
    message.header.frame_id, message.twist.linear.y = frame, y
    if stamp is not None:
        message.header.stamp.sec, message.header.stamp.nanosec = int(stamp), int(stamp % 1 * 1e9)
    return message


def jog(*velocities, names=None, **fields):
    names = JOINT_NAMES[: len(velocities)] if names is None else names
    return JointJog(joint_names=list(names), velocities=list(velocities), **fields)


class HeldButton:
    """The jogging of a planner without DDS, and a button that publishes while it is held."""

    def __init__(self, monkeypatch):
        self.now, self.said, self.begun, self.is_frame_known = 100.0, [], 0, True
        self.message, self._take, self._answer = twist(0.1), {}, {}
        monkeypatch.setattr(jogging, 'time', SimpleNamespace(monotonic=lambda: self.now))
        self.status = SimpleNamespace(q=HOME, safety_mode=0)
        log = SimpleNamespace(warning=lambda text, **_: self.said.append(text))
        node = SimpleNamespace(
            reader=self,
            create_timer=lambda *_, **__: None,
            create_service=lambda _kind, name, answer: self._answer.update({name: answer}),
            begin=lambda *_: None,
            in_pool=None,
            resolve_topic_name=str,
            get_logger=lambda: log,
            get_clock=lambda: SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=9e9)),
        )
        planner = make_planner()
        frames = SimpleNamespace(
            T_base_frame=self.T_base_frame, is_on_tool=lambda *_, **__: False
        )
        self.jogging = jogging.Jogging(
            SimpleNamespace(
                node=node,
                model=planner.model,
                frames=frames,
                joint_names=JOINT_NAMES,
                robot=SimpleNamespace(controller='controller'),
            ),
            SimpleNamespace(planner=planner),
            SimpleNamespace(status=self.status, interruptions=0),
            SimpleNamespace(lists=lambda _: self),
            LoopSettings(),
        )

    def T_base_frame(self, frame, *_, **__):
        if not self.is_frame_known or frame == 'moon':
            raise UnknownFrame(f'frame {frame!r} is not known')
        return np.eye(4)

    def pause(self, is_paused):
        answer = self._answer['~/pause_servo']
        assert answer(SetBool.Request(data=is_paused), SetBool.Response()).success

    def every(self, _period, check):
        self._note_silence = check

    def subscribe(self, kind, _topic, take, *_):
        self._take[kind] = take

    is_there = True

    def send(self, _request, _on_reply):
        """Count a jog that asks for the controllers, its first step."""
        self.begun += 1

    def hold(self, seconds, is_held=True):
        for _ in range(round(seconds / 0.02)):
            self.now += 0.02
            self._note_silence()
            if is_held:
                self.give(self.message)

    def give(self, message):
        self._take[type(message)]([SimpleNamespace(data=serialize_message(message))])

    def moves_once_it_is_pressed_again(self):
        assert not self.begun
        self.hold(0.3, is_held=False)
        self.hold(0.04)
        return self.begun == 1


@pytest.fixture
def button(monkeypatch):
    return HeldButton(monkeypatch)


@pytest.mark.parametrize('state', ['ready', 'running'], ids=['from_rest', 'after_a_refusal'])
@pytest.mark.parametrize('cause', ['frame', 'joint_states'])
def test_a_button_held_while_its_commands_cannot_be_read_moves_nothing_when_they_can(
    button, cause, state
):
    if state == 'running':
        button.jogging.task_state = state
        button.hold(0.1)
        assert 'jog refused: pick_place is running' in button.said[-1]
        button.jogging.task_state = 'ready'
    button.is_frame_known, button.status.q = cause != 'frame', HOME if cause == 'frame' else None
    button.hold(0.5)
    assert 'jog command ignored: ' in button.said[-1]
    button.is_frame_known, button.status.q = True, HOME
    button.hold(3.0)
    assert button.said[-1].endswith('; release the command and give it again')
    assert button.moves_once_it_is_pressed_again()


def test_a_paused_servo_moves_nothing_until_the_button_is_pressed_again_after_it(button):
    button.pause(True)
    button.hold(0.5)
    assert 'a client has paused jogging: call ~/pause_servo with data: false' in button.said[-1]
    button.pause(False)
    button.hold(0.5)
    assert button.moves_once_it_is_pressed_again()


def test_zeros_that_cannot_be_read_do_not_keep_another_sender_from_jogging(button):
    pressed, button.message = button.message, twist()
    button.is_frame_known = False
    button.hold(0.5)
    assert 'jog command ignored: ' in button.said[-1]
    button.is_frame_known, button.message = True, pressed
    button.hold(0.04)
    assert button.begun == 1


def test_displacements_of_zero_beside_velocities_are_no_displacements(monkeypatch):
    button = HeldButton(monkeypatch)
    button.hold(0.3, is_held=False)
    button.message = jog(0.3, displacements=[0.0])
    button.hold(0.04)
    assert button.begun == 1


@pytest.mark.parametrize(
    ('message', 'reason'),
    [
        (twist(float('nan')), 'is not finite'),
        (twist(float('inf')), 'is not finite'),
        (twist(0.2, 'moon'), "frame 'moon' is not known"),
        (twist(0.2, 'x' * 100_000), 'bytes was ignored'),
        (twist(0.2, stamp=0.001), 'old: must be at most 0.2 s'),
        (twist(0.2, stamp=1e9), 'ahead: must be'),
        (jog(0.3, float('nan')), 'are not finite'),
        (jog(0.3, names=['elbow']), 'joints unknown: elbow'),
        (jog(0.3, 0.3, names=['elbow_joint'] * 2), 'named twice: elbow_joint'),
        (jog(0.3, names=JOINT_NAMES), '6 joint_names and 1 velocities'),
        (jog(), '0 joint_names'),
        (jog(0.3, displacements=[0.1]), 'displacements are not supported'),
    ],
)
def test_what_cannot_be_followed_is_named_and_begins_nothing(button, message, reason):
    button.hold(0.3, is_held=False)
    button.give(message)
    assert reason in button.said[-1] and not button.begun
