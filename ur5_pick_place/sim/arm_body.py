# SPDX-License-Identifier: Apache-2.0
"""
The arm of the cell's MuJoCo model, of any UR type.

`cell.xml` draws a ur5. For another type its lengths, masses, servos and housings are replaced: DH
table, inertias and torque limits are the published ones, and the housings are convex polytopes.

"""

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

import numpy as np

from ur5_pick_place.kinematics import JOINT_NAMES, Model, load_model
from ur5_pick_place.kinematics.arm_shapes import LinkBody, arm_bodies
from ur5_pick_place.kinematics.link_inertias import LinkInertia, link_inertias

DRAWN_ARM = 'ur5'
"""The type that `cell.xml` draws."""

_CAMERA_HEIGHT = 0.514  # [m] of the ur5's elbow at home, which the camera's distance suits


def replace_arm(cell: ElementTree.Element, arm: Model) -> None:
    """Replace the ur5 of a cell by another arm."""
    base = child(cell, "worldbody/body[@name='base']")
    frames = [base, *(child(base, f".//body[@name='frame_{i}']") for i in range(1, 7))]
    for i, inertia in enumerate(link_inertias(arm.name), start=1):
        frames[i].set('pos', _text(arm.a[i - 1], 0.0, arm.d[i - 1]))
        _replace_inertia(child(frames[i], 'inertial'), inertia)
    _replace_housings(child(cell, 'asset'), frames, arm_bodies(arm))
    _replace_servos(cell, arm)
    _move_camera_away(cell, arm)


def child(element: ElementTree.Element, path: str) -> ElementTree.Element:
    """Return the first element at a path, which must exist."""
    found = element.find(path)
    assert found is not None, path
    return found


def _replace_inertia(inertial: ElementTree.Element, link: LinkInertia) -> None:
    inertial.attrib.pop('diaginertia', None)
    inertial.set('pos', _text(*link.centre))
    inertial.set('mass', _text(link.mass))
    inertial.set('fullinertia', _text(*link.moments, *link.products))


def _replace_housings(
    assets: ElementTree.Element, frames: Sequence[ElementTree.Element], bodies: Iterable[LinkBody]
) -> None:
    for frame in frames:
        for geom in frame.findall('geom'):
            frame.remove(geom)
    for k, body in enumerate(bodies):
        mesh = {'name': f'housing_{k}', 'vertex': _text(*body.vertices.ravel())}
        assets.append(ElementTree.Element('mesh', mesh))
        geom = ElementTree.Element('geom', {'type': 'mesh', 'mesh': mesh['name']})
        frames[body.link].insert(0, geom)


def _replace_servos(cell: ElementTree.Element, arm: Model) -> None:
    """Set torque limits, and stiffen the servos of joints that are stronger than the ur5's."""
    drawn = load_model(DRAWN_ARM).effort_max
    for i, joint in enumerate(JOINT_NAMES):
        servo = child(cell, f"actuator/position[@joint='{joint}']")
        usual = child(cell, f".//default[@class='{servo.attrib['class']}']/position")
        stiffer = max(arm.effort_max[i] / drawn[i], 1.0)
        for gain in ('kp', 'kv'):
            servo.set(gain, _text(stiffer * float(usual.attrib[gain])))
        servo.set('forcerange', _text(-arm.effort_max[i], arm.effort_max[i]))


def _move_camera_away(cell: ElementTree.Element, arm: Model) -> None:
    """Move the camera back for a taller arm, so that it fits the picture."""
    height = float(arm.d[0] - arm.a[1])
    further = max(height / _CAMERA_HEIGHT, 1.0)
    camera = child(cell, "worldbody/camera[@name='overview']")
    aim = np.array(child(cell, "worldbody/body[@name='aim']").attrib['pos'].split(), dtype=float)
    away = np.array(camera.attrib['pos'].split(), dtype=float) - aim
    camera.set('pos', _text(*(aim + further * away)))


def _text(*numbers: float) -> str:
    return ' '.join(f'{float(number):.9g}' for number in numbers)
