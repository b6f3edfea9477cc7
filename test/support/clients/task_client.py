# SPDX-License-Identifier: Apache-2.0
"""A client of the task node for tests, and the poses that it teaches."""

import json
import math

import numpy as np
from cycle_poses import MODEL, SCENE
from driver_client import IO, LATCHED, DriverClient
from geometry_msgs.msg import PoseStamped
from std_msgs.msg import String
from std_srvs.srv import Trigger
from ur_msgs.msg import ToolDataMsg

from ur5_pick_place.kinematics import forward
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK

START, TARGET = (0.45, -0.2, 0.0), (0.4, 0.2, 0.6)


class TaskClient(DriverClient):
    """Calls the task node's services and records what it publishes."""

    def __init__(self, namespace=''):
        super().__init__(namespace)
        self.events, self.states, self.part, self.supply = [], [], [], []
        self.hear(String, 'pick_place/event', self._hear_event, 100)
        self.hear(String, 'pick_place/state', lambda m: self.states.append(m.data), LATCHED)
        self.hear(PoseStamped, 'sim_driver/part_pose', self.part.append)
        self.hear(ToolDataMsg, f'{IO}/tool_data', self.supply.append)
        for name in ('plan', 'run', 'stop', 'rearm', 'pause', 'resume', 'go_home'):
            # created early: a call before discovery is complete may get no reply
            self._clients[f'pick_place/{name}'] = self.node.create_client(
                Trigger, f'pick_place/{name}'
            )
        self.place = self.node.create_publisher(PoseStamped, 'sim_driver/place_part', 10)
        self.poses = {
            name: self.node.create_publisher(PoseStamped, f'pick_place/{name}_pose', 10)
            for name in ('start', 'target')
        }

    def _hear_event(self, message):
        self.events.append(json.loads(message.data))

    def wait_until_ready(self, wall=10.0):
        """Wait for driver, task node and planner, and switch the gripper on."""
        self.wait_for_driver()
        self.until(lambda: self.states and self.part, 'the task node', wall)
        self.until(lambda: self.ask('init_gripper').success, 'the planner to be ready', wall)
        self.event('done', job='init_gripper')

    def ask(self, name):
        return self.call(Trigger, f'pick_place/{name}')

    def do(self, name):
        reply = self.ask(name)
        assert reply.success, reply.message

    def event(self, kind, wall=60.0, since=0, **data):
        def found():
            news = self.events[since:]
            stops = [e for e in news if e['event'] == 'stopped' != kind]
            assert not stops, f'stopped while waiting for {kind} {data}: {stops}'
            return [e for e in news if e['event'] == kind and data.items() <= e.items()]

        def what():
            came = [e['event'] for e in self.events[since:]]
            return f'event {kind} {data}; the state is {self.states[-1:]}, came: {came}'

        self.until(found, what, wall)
        return found()[-1]

    def job(self, name):
        since = len(self.events)
        self.do(name)
        self.event('done', since=since, job=name)

    def teach(self, name, spot):
        self.until(self.poses[name].get_subscription_count, f'a subscriber of {name}_pose')
        since = len(self.events)
        self.poses[name].publish(pose(*spot))
        self.event('taught', since=since, place=name)

    def teach_places(self):
        """Teach home where the arm is, and start and target."""
        self.do('teach_home')
        self.teach('start', START)
        self.teach('target', TARGET)

    def put_part(self, spot):
        self.until(self.place.get_subscription_count, 'a subscriber of place_part')
        self.place.publish(pose(*spot))
        self.run(0.3)

    def part_at(self):
        p = self.part[-1].pose.position
        return np.array([p.x, p.y, p.z])

    def has_part_in_hand(self):
        """Whether the part is at the TCP of an arm at rest, and the gripper closed."""
        T = T_BASE_BASE_LINK @ forward(MODEL, self.q) @ SCENE.tool.T_tool_tcp
        return np.linalg.norm(self.part_at() - T[:3, 3]) < 5e-3 and self.output(16)


def pose(x, y, yaw, frame='base_link'):
    """Cube and TCP alike: 22.5 mm above the table, tool pointing down."""
    message = PoseStamped()
    message.header.frame_id = frame
    message.pose.position.x, message.pose.position.y = x, y
    message.pose.position.z = 0.0225
    message.pose.orientation.x = math.cos(yaw / 2)
    message.pose.orientation.y = math.sin(yaw / 2)
    message.pose.orientation.w = 0.0
    return message
