# SPDX-License-Identifier: Apache-2.0
"""
The arm of the cell's MuJoCo model, of any UR type.

`cell.xml` draws a ur5. For another type its lengths, masses, servos and housings are replaced: DH
table, inertias and torque limits are the published ones, and the housings are cylinders.

"""

from collections.abc import Iterable
from xml.etree import ElementTree

import numpy as np

from ur5_pick_place.kinematics import JOINT_NAMES, Model, load_model
from ur5_pick_place.kinematics.arm_shapes import Cylinder, arm_cylinders
from ur5_pick_place.kinematics.link_inertias import LinkInertia, link_inertias
from ur5_pick_place.kinematics.transforms import Array

DRAWN_ARM = 'ur5'
"""The type that `cell.xml` draws."""

_CAP = 0.007  # [m] length of the blue cap at the end of a housing
_CAP_RADIUS = 0.92  # of that of its housing
# Collision cylinders enclose a bent tube; drawn it is thinner than the housings at its ends.
_TUBE_RADIUS = 0.8
_CAMERA_HEIGHT = 0.514  # [m] of the ur5's elbow at home, which the camera's distance suits


def replace_arm(cell: ElementTree.Element, arm: Model) -> None:
    """Replace the ur5 of a cell by another arm."""
    cylinders = arm_cylinders(arm)
    base = child(cell, "worldbody/body[@name='base']")
    _replace_housings(base, [c for c in cylinders if c.link == 0])
    for i, inertia in enumerate(link_inertias(arm.name), start=1):
        frame = child(base, f".//body[@name='frame_{i}']")
        frame.set('pos', _text(arm.a[i - 1], 0.0, arm.d[i - 1]))
        _replace_inertia(child(frame, 'inertial'), inertia)
        _replace_housings(frame, [c for c in cylinders if c.link == i])
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


def _replace_housings(body: ElementTree.Element, cylinders: Iterable[Cylinder]) -> None:
    for geom in body.findall('geom'):
        body.remove(geom)
    for cylinder in cylinders:
        for geom in _housing(cylinder):
            body.insert(0, geom)


def _housing(cylinder: Cylinder) -> list[ElementTree.Element]:
    """Return a cylinder's shapes: a tube along its link, or a housing, capped on links 1 to 5."""
    centre, axis = cylinder.T_link_cylinder[:3, 3], cylinder.T_link_cylinder[:3, 2]
    begin, end = (centre + side * cylinder.length / 2 * axis for side in (-1.0, 1.0))
    if abs(axis[0]) > 0.5:
        return [_geom(begin, end, _TUBE_RADIUS * cylinder.radius, material='alloy')]
    if cylinder.link == 0 or cylinder.link == 6:
        return [_geom(begin, end, cylinder.radius)]
    cap = end - _CAP * axis
    return [
        _geom(begin, cap, cylinder.radius),
        _geom(cap, end, _CAP_RADIUS * cylinder.radius, **{'class': 'cap'}),
    ]


def _geom(begin: Array, end: Array, radius: float, **more: str) -> ElementTree.Element:
    size = {'fromto': _text(*begin, *end), 'size': _text(radius)}
    return ElementTree.Element('geom', {**size, **more})


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
