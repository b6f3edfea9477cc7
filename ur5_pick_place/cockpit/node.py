# SPDX-License-Identifier: Apache-2.0
"""
Serve the page that shows the cell and commands its nodes; prints its address.

- http://127.0.0.1:8060/?token=...: the page, for those who have the token
- trajectory_planner/delta_twist_cmds, delta_joint_cmds: while a button is held
- pick_place/<place>_pose: where a handle was dragged
"""

import math
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import rclpy
import viser
from geometry_msgs.msg import PoseStamped
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from visualization_msgs.msg import Marker, MarkerArray

from ur5_pick_place.client.connection import SIM_DRIVER, TASK
from ur5_pick_place.client.preflight import collect
from ur5_pick_place.client.requests import solutions
from ur5_pick_place.cockpit.actions import JOG, SERVICES, why_not
from ur5_pick_place.cockpit.arm_meshes import meshes_of
from ur5_pick_place.cockpit.checks import PreflightTab, StatisticsTab, TouchTab
from ur5_pick_place.cockpit.guard import Guard, listen, new_token, open_server
from ur5_pick_place.cockpit.jog import Jog
from ur5_pick_place.cockpit.link import CellLink, Offers
from ur5_pick_place.cockpit.page import add_keys
from ur5_pick_place.cockpit.panel import Panel
from ur5_pick_place.cockpit.places import PlaceHandles
from ur5_pick_place.cockpit.tabs import PLOT_PERIOD, FaultsTab, JogTab, Plots, SolutionsTab
from ur5_pick_place.cockpit.view import CellView
from ur5_pick_place.control.stillness import Stillness
from ur5_pick_place.errors import ExecutionError, InvalidInput, UnknownFrame, one_line
from ur5_pick_place.kinematics import link_pose
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array
from ur5_pick_place.nodes.cell.node_list import ROBOTS
from ur5_pick_place.nodes.cell.robot_settings import RobotSettings, load_cell
from ur5_pick_place.nodes.driver.joint_listener import JointListener, Joints
from ur5_pick_place.nodes.messages.conversions import pose_to_matrix
from ur5_pick_place.nodes.messages.markers import GHOSTS, SWEPT, posture_of
from ur5_pick_place.nodes.ros.distro import TakenMessage, read
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.parameters import declare_settings
from ur5_pick_place.nodes.ros.process import run_node
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.nodes.ros.service_calls import steady_timer
from ur5_pick_place.nodes.ros.topic_reader import BoundedReader
from ur5_pick_place.nodes.scene.planning_scene import SceneFollower
from ur5_pick_place.nodes.tf.frames import Frames
from ur5_pick_place.planning.scene.world import AttachedObject, World
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.task import events

ADDRESS = 'cockpit: '
"""Begins the line on stdout that holds the page's address."""

_FRAME = 0.05  # [s] between two pictures
_REFRESH = 0.2  # [s] between two looks at texts and buttons
_OFFERS_PERIOD = 1.0  # [s] between two polls of what the nodes offer
_SILENCE = 1.0  # [s] after which joints are no longer the present ones
_CLOSING = 0.5  # [s] for the page to close
_SOLVE = 0.2  # [s] between two requests for solutions during a drag
_QUEUE = 4
_LARGEST = 4096  # [bytes] of a pose or of the fingers
_LARGEST_URDF = 1_048_576  # [bytes]
_GRIP_AFTER = {'open_gripper': False, 'close_gripper': True}  # closed?
_MAX_POINTS = 100_000  # of one marker
_MOST_GHOSTS = 64
_AT_PLACE = 0.03  # [m]; a part farther away was fed since, or has a cell of a pattern


@dataclass(frozen=True)
class CockpitSettings(Settings):
    """Where the page is served, and which robot it shows."""

    host: str = setting(
        '127.0.0.1', 'address to serve on; other than a loopback one, it lets others open the page'
    )
    port: int = setting(8060, 'port to serve on', low=0, high=65535)
    robot: str = setting(
        'real', 'what the nodes drive; ursim and real are shown as a real robot', choices=ROBOTS
    )


class Cockpit(SerialNode):
    """Serves the page; a client of the nodes, like any other."""

    def __init__(self) -> None:
        super().__init__('cockpit')
        robot, own = declare_settings(self, RobotSettings, CockpitSettings)
        cell = load_cell(robot)
        self._cell, self._prefix = cell, robot.tf_prefix
        self._joints: Joints | None = None
        self._bad_joints = ''
        self._joints_came = 0.0  # steady clock
        self._stillness = Stillness()
        self._world: tuple[World, AttachedObject | None] | None = None
        self._drawings: dict[str, MarkerArray] = {}
        self._offers = Offers()
        self._last_solve, self._has_part = 0.0, False
        self._T_part: Array | None = None  # of the simulated cell
        listener = listen(own.host, own.port)
        guard = Guard(new_token(), own.host, listener.getsockname()[1])
        self._server = open_server(listener, guard, self._warn)
        self._build(own, robot.scene_file)
        self._listen_to_cell()
        print(f'{ADDRESS}{_address(guard)}', flush=True)

    def _build(self, own: CockpitSettings, scene_file: str) -> None:
        cell, server = self._cell, self._server
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        self._view = CellView(server, cell.model, cell.scene)
        self._link = CellLink(
            self,
            f'{self._prefix}base_link',
            self._on_event,
            self._drawings.__setitem__,
            lambda line: self._panel.add_line(line, is_bad=True),
            lambda figures: self._statistics.take(figures),
        )
        part = cell.scene.part
        size = (0.04, 0.04, 0.04) if part is None else tuple(map(float, part.size))
        self._places = PlaceHandles(server, size, self._send_place, self._on_drag)
        self._panel = Panel(server, self._link, own.robot, self._distance_to)
        self._build_tabs(server.gui, own.robot in ('real', 'ursim'), scene_file)
        add_keys(server)
        for service in SERVICES.values():
            self._link.client(Trigger, f'{TASK}/{service}')
        self._link.client(SetBool, f'{TASK}/freedrive')

    def _build_tabs(self, gui: viser.GuiApi, is_real: bool, scene_file: str) -> None:
        prefix, names = self._prefix, self._cell.joint_names
        jog = Jog(self, prefix, names, lambda: self._joints.stamp if self._joints else -math.inf)
        self._page_tabs = gui.add_tab_group()
        self._faults: FaultsTab | None = None
        with self._page_tabs.add_tab('Jog'):
            self._jog = JogTab(gui, jog, is_real)
        with self._page_tabs.add_tab('Solutions'):
            self._solutions = SolutionsTab(gui, self._view)
        with self._page_tabs.add_tab('Plots'):
            self._plots = Plots(gui, self._cell.model)
        with self._page_tabs.add_tab('Checks'):
            PreflightTab(gui, lambda: collect(self.get_namespace(), lambda: not rclpy.ok()))
        with self._page_tabs.add_tab('Statistics'):
            self._statistics = StatisticsTab(gui)
        with self._page_tabs.add_tab('Touch'):
            TouchTab(gui, self._pose_at_rest, scene_file, self._cell.scene.mounting)

    def _listen_to_cell(self) -> None:
        self._frames = Frames(self, self._prefix, self._cell.T_tool_tcp)
        on_bad = partial(setattr, self, '_bad_joints')
        JointListener(self, self._cell.joint_names, self._on_joints, on_bad, _FRAME)
        qos = QoSProfile(depth=_QUEUE)
        for kind, topic, take in (
            (PoseStamped, f'{SIM_DRIVER}/part_pose', self._on_part),
            (JointState, f'{SIM_DRIVER}/finger_states', self._on_fingers),
        ):
            bounded = BoundedReader(self, kind, topic, _LARGEST)
            self.reader.subscribe(kind, topic, partial(_newest, bounded, take), qos, _FRAME)
        self._link.hear(String, 'robot_description', self._on_urdf, LATCHED, _LARGEST_URDF)
        SceneFollower(self, self._frames, self._on_world, shows_others=True)
        steady_timer(self, _OFFERS_PERIOD, self._update_offers)
        # Not by timers: each wakes the executor, which costs more than the work.
        self.reader.every(_REFRESH, self._refresh)
        self.reader.every(PLOT_PERIOD, self._plot)

    def destroy_node(self) -> None:
        """Close the page, then the node."""
        # The server waits 6 s for a connection that does not answer.
        closing = threading.Thread(target=self._server.stop, daemon=True)
        closing.start()
        closing.join(_CLOSING)
        super().destroy_node()

    def _warn(self, text: str) -> None:
        self.get_logger().warning(text, throttle_duration_sec=5.0)

    # -- the cell's topics -----------------------------------------------------------------------

    def _on_joints(self, joints: Joints) -> None:
        self._joints, self._bad_joints, self._joints_came = joints, '', time.monotonic()
        self._stillness.update(joints.stamp, joints.q)
        self._view.show_arm(joints.q)

    def _on_urdf(self, message: String) -> None:
        try:
            meshes = meshes_of(message.data, self._cell.model, self._prefix)
        except InvalidInput as error:
            self.get_logger().info(
                f'robot_description is not used ({one_line(error)}): the arm is drawn as before'
            )
        else:
            self._view.draw_arm_meshes(meshes)

    def _on_part(self, message: PoseStamped) -> None:
        try:
            self._T_part = pose_to_matrix(message.pose)
        except InvalidInput:
            self._T_part = None
        self._view.show_part(self._T_part)

    def _distance_to(self, place: str) -> float | None:
        """Return how far the cell's part lies from a place [m]; None unless it lies there."""
        handle, T, part = self._places.all.get(place), self._T_part, self._cell.scene.part
        if handle is None or T is None or part is None or not handle.is_taught:
            return None
        T_meant = handle.T_base_link_tcp @ part.T_tcp_part
        distance = float(np.linalg.norm(T[:3, 3] - T_meant[:3, 3]))
        return distance if distance < _AT_PLACE else None

    def _on_fingers(self, message: JointState) -> None:
        travel = list(message.position)
        if travel and math.isfinite(travel[0]):
            self._view.show_fingers(float(np.clip(travel[0], 0.0, 0.1)))

    def _on_world(self, world: World, part: AttachedObject | None) -> None:
        self._world = (world, part)  # drawn by the node's own thread

    def _on_event(self, event: dict[str, Any]) -> None:
        self._panel.on_event(event)
        self._places.on_event(event)
        job = str(event.get('job')) if event['event'] == events.DONE else ''
        if job in _GRIP_AFTER and not self._offers.is_simulated:
            self._view.show_grip(_GRIP_AFTER[job])

    # -- the page --------------------------------------------------------------------------------

    def _refresh(self) -> None:
        state = self._link.state
        self._panel.show(state, self._offers)
        self._jog.show(why_not(JOG, state))
        self._view.follow(state)
        if self._world is not None:
            (world, part), self._world = self._world, None
            if self._offers.is_simulated:
                part = None  # the cell publishes it, and its fingers
            elif (part is not None) != self._has_part:
                self._view.show_grip(part is not None)
            self._has_part = part is not None
            self._view.show_world(world, part)
        while self._drawings:
            name, drawing = self._drawings.popitem()
            self._draw(name, drawing)

    def _draw(self, name: str, drawing: MarkerArray) -> None:
        """Show the markers in `base_link`."""
        base = f'{self._prefix}base_link'
        paths, swept, postures = [], [], []
        for marker in drawing.markers:
            if marker.header.frame_id.lstrip('/') != base or len(marker.points) > _MAX_POINTS:
                continue
            if marker.ns == GHOSTS:
                postures += posture_of(marker)
                continue
            points = np.array([(p.x, p.y, p.z) for p in marker.points]).reshape(-1, 3)
            if not np.isfinite(points).all():
                continue
            if marker.type == Marker.LINE_STRIP:
                paths.append(points)
            elif marker.ns == SWEPT and marker.type == Marker.TRIANGLE_LIST:
                swept.append(points[: len(points) // 3 * 3])
        self._view.show_lines(name, paths, swept)
        self._view.show_postures(f'{name}/ghosts', postures[:_MOST_GHOSTS])

    def _update_offers(self) -> None:
        self._offers = offers = self._link.poll_offers()
        for name in offers.pose_teachable:
            self._link.prepare_pose(f'{TASK}/{name}_pose')
        for name in offers.teachable:
            self._link.client(Trigger, f'{TASK}/teach_{name}')
        if offers.is_simulated:
            self._link.prepare_pose(f'{SIM_DRIVER}/place_part')
            for name in ('clear_faults', 'feed_part'):
                self._link.client(Trigger, f'{SIM_DRIVER}/{name}')
        self._places.offer(offers.pose_teachable, offers.movable)
        if offers.is_simulated and self._faults is None:
            with self._page_tabs.add_tab('Simulation'):
                self._faults = FaultsTab(self._server.gui, self._link, self._panel, self._places)
        if self._faults is not None:
            self._faults.offer(offers.faults)
        self._follow_frames()

    def _follow_frames(self) -> None:
        """Move each handle to where its place is in TF."""
        for place, handle in self._places.all.items():
            with suppress(UnknownFrame):
                # Without waiting: this thread takes the joints too.
                T_base_place = self._frames.T_base_frame(f'{self._prefix}{place}', waits=False)
                handle.follow(T_BASE_LINK_BASE @ T_base_place)

    def _plot(self) -> None:
        joints = self._joints
        if joints is None:
            return
        self._plots.add(joints.stamp, joints.q, joints.qd)
        if self._server.get_clients():
            self._plots.draw()

    # -- from the page, on its own thread --------------------------------------------------------

    def _send_place(self, place: str, T_base_link_tcp: Array) -> None:
        self._link.send_pose(f'{TASK}/{place}_pose', T_base_link_tcp)
        self._solve(place, T_base_link_tcp)

    def _on_drag(self, place: str, T_base_link_tcp: Array) -> None:
        if time.monotonic() > self._last_solve + _SOLVE:
            self._solve(place, T_base_link_tcp)

    def _solve(self, place: str, T_base_link_tcp: Array) -> None:
        self._last_solve = time.monotonic()
        link = 'tcp' if self._cell.T_tool_tcp is not None else 'tool0'
        self._link.solve(T_base_link_tcp, link, lambda reply: self._on_solved(place, reply))

    def _pose_at_rest(self, link: str) -> Array:
        if self._bad_joints:
            raise ExecutionError(self._bad_joints)
        joints = self._joints
        if joints is None or time.monotonic() - self._joints_came > _SILENCE:
            raise ExecutionError('joint_states are silent: check the driver and the link to it')
        if reason := self._stillness.why_not_at_rest:
            raise ExecutionError(f'{reason}: hold it still, then touch again')
        arm = partial(link_pose, self._cell.model, joints.q)
        return np.asarray(T_BASE_LINK_BASE @ self._frames.T_base_link(link, arm))

    def _on_solved(self, place: str, reply: Any) -> None:
        found = solutions(reply.solution.joint_state, read(reply.error_code, 'message', ''))
        self._solutions.show(place, found)


def _newest(
    reader: BoundedReader, take: Callable[[Any], object], waiting: Sequence[TakenMessage]
) -> None:
    if (message := reader.read(waiting[-1].data)) is not None:
        take(message)


def _address(guard: Guard) -> str:
    """Return the page's address; any address of this machine is named by its host name."""
    host = guard.host
    if host in ('', '0.0.0.0', '::'):
        host = socket.gethostname()
    return f'http://{f"[{host}]" if ":" in host else host}:{guard.port}/?token={guard.token}'


def main() -> None:
    """Run the node until it is shut down."""
    run_node(Cockpit)
