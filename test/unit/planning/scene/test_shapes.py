# SPDX-License-Identifier: Apache-2.0
"""Shapes keep their bounds, fill what they must, and what is carried is not forgotten."""

from dataclasses import replace
from time import process_time

import coal
import numpy as np
import pytest
from motion_planners import PICK, make_planner
from scenes import pose, thing_at
from solids import FINITE, SCENE, UR5, angle_iron, bin_of_plates, elbow_up_at, of_boxes, polyhedron

from ur5_pick_place.errors import GateRefusal, InvalidInput, PlanningError
from ur5_pick_place.kinematics import HOME, forward
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK, make_transform
from ur5_pick_place.planning.collision.collision import CollisionModel, collision_model
from ur5_pick_place.planning.collision.solids import hull_of, solid_of
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene import Box, Part, Scene, Tool
from ur5_pick_place.planning.scene.shapes import (
    MAX_TRIANGLES,
    Cone,
    Cuboid,
    Cylinder,
    Mesh,
    Plane,
    Sphere,
)
from ur5_pick_place.planning.scene.world import AttachedObject, PlacedShape, SceneObject, World

CORNERS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
FACES = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])


def placed(shape, *at: float, name: str = 'thing') -> SceneObject:
    return thing_at(name, shape, at)


def contact(*things: SceneObject, q=HOME):
    """What the arm touches at q among objects."""
    world = World()
    for thing in things:
        world = world.with_object(thing)
    return CollisionModel(UR5, replace(SCENE, world=world)).check(q)


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (lambda: Sphere(0.0), 'radius of the sphere = 0.0 m: must lie in 0.0001 to 100 m'),
        (lambda: Cylinder(0.1, np.nan), 'height of the cylinder = nan m'),
        (lambda: Cone(-1.0, 0.1), 'radius of the cone = -1.0 m'),
        (lambda: Cuboid([0.1, 101.0, 0.1]), 'edge of the box along y = 101.0 m'),
        (lambda: Plane(np.zeros(3), 1.0), 'must not be zero'),
        (lambda: Plane(np.array([0, 0, 1.0]), np.inf), 'must be finite'),
        (
            lambda: Plane(np.array([2e-6, 0, 0]), -1e308),
            r'plane \[2e-06, 0.0, 0.0\], -1e\+308: .* distance -inf m must be finite',
        ),
        (lambda: Plane(np.full(3, 1.7e308), 1.0), 'finite numbers, the normal of length 1'),
        (lambda: Mesh(CORNERS, np.zeros((0, 3))), 'mesh of 0 triangles: must have 1 to 5000'),
        (lambda: Mesh(CORNERS, [[0, 1, 4]]), 'vertex 4: must be 0 to 3'),
        (lambda: Mesh(CORNERS, [[0, 1, -2]]), 'vertex -2: must be 0 to 3'),
        (lambda: Mesh(CORNERS * np.nan, FACES), 'not finite'),
        (lambda: Mesh(CORNERS * 1e-6, FACES), 'largest extent of the mesh'),
        (lambda: Mesh(CORNERS, [[0, 1, 2]] * (MAX_TRIANGLES + 1)), '5001 triangles'),
    ],
)
def test_a_shape_beyond_its_bounds_is_refused_with_value_and_bounds(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize('length', [1e-5, 1.0, 1e100])
def test_a_plane_is_the_same_whatever_the_length_of_its_normal(length):
    plane = Plane(length * np.array([2.0, -1.0, 2.0]), length * -0.6)
    np.testing.assert_allclose(plane.normal, [2 / 3, -1 / 3, 2 / 3], rtol=1e-15)
    assert plane.offset == pytest.approx(-0.2, rel=1e-15)


@pytest.mark.parametrize('make', FINITE)
def test_the_bounds_of_a_shape_are_about_its_surface(make, rng):
    solid = make(rng)
    reached = np.abs(solid.surface)
    assert (reached <= solid.shape.half + 1e-9).all()
    assert (solid.shape.half - reached.max(axis=0) < 0.06).all()
    assert (np.linalg.norm(solid.surface, axis=1) <= solid.shape.radius + 1e-9).all()


def test_the_hull_of_a_mesh_holds_all_of_it_and_a_flat_one_has_some_thickness(rng):
    for mesh in (polyhedron(rng).shape, Mesh(CORNERS, FACES[:1]), angle_iron(rng).shape):
        hull, directions = hull_of(mesh), rng.normal(size=(50, 3))
        ours = ((hull.vertices + mesh.middle) @ directions.T).max(axis=0)
        assert (ours >= (mesh.vertices @ directions.T).max(axis=0) - 1e-9).all()
        assert np.linalg.matrix_rank(hull.vertices - hull.vertices[0], tol=1e-6) == 3


def test_a_point_is_inside_a_mesh_where_the_closed_form_says_so(rng):
    for make in (bin_of_plates, angle_iron):
        solid = make(rng)
        cavities = solid_of(solid.shape).cavities
        points = rng.uniform(-0.3, 0.3, (300, 3))
        said = np.array([any(c.contains(point) for c in cavities) for point in points])
        np.testing.assert_array_equal(said, solid.distance(points) < 0)


def test_what_lies_wholly_inside_a_closed_mesh_touches_it(rng):
    """Though it touches none of its triangles: the wrist in a block of 12 corners."""
    wrist = np.array([0.49, 0.11, 0.43])  # about the flange at home
    block = angle_iron(rng).shape
    vertices = block.vertices / np.ptp(block.vertices, axis=0)  # an L of 1 x 1 x 1 m
    shape = Mesh(vertices * [4.0, 4.0, 4.0], block.triangles)
    found = contact(placed(shape, *(wrist - [1.0, 1.0, 0.0])))
    assert found is not None and found.distance < 0.0
    assert str(found).count("object 'thing'") == 1


def test_a_bin_is_hollow_and_its_plates_are_not(rng):
    T_hand = np.array([0.49, 0.11, 0.40])
    t = 0.005
    plates = [
        (np.array([s * 0.3, 0, 0]), np.array([t, 0.3, 0.15])) for s in (-1, 1)
    ] + [(np.array([0, s * 0.3, 0]), np.array([0.3, t, 0.15])) for s in (-1, 1)]
    around = of_boxes(rng, plates).shape
    assert contact(placed(around, *(T_hand - [0.0, 0.0, 0.25]))) is None
    assert contact(placed(around, *(T_hand - [0.3, 0.0, 0.1]))) is not None


def torus(around: float, tube: float) -> Mesh:
    """4,800 triangles about z; `around` and `tube` are the two radii [m]."""
    n, m = 80, 30
    u, v = np.meshgrid(np.arange(n) * 2 * np.pi / n, np.arange(m) * 2 * np.pi / m, indexing='ij')
    away = around + tube * np.cos(v)
    vertices = np.stack([away * np.cos(u), away * np.sin(u), tube * np.sin(v)], axis=-1)
    i, j = (g.ravel() for g in np.meshgrid(np.arange(n), np.arange(m), indexing='ij'))
    a, b = i * m + j, (i + 1) % n * m + j
    c, d = (i + 1) % n * m + (j + 1) % m, i * m + (j + 1) % m
    triangles = np.vstack([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    return Mesh(vertices.reshape(-1, 3), triangles)


def bin_of_boards() -> Mesh:
    x, y, z, t = 0.2, 0.15, 0.08, 0.006
    sides = [((s * x, 0, 0), (t, y, z)) for s in (-1, 1)]
    sides += [((0, s * y, 0), (x, t, z)) for s in (-1, 1)]
    boards = [((0, 0, -z), (x, y, t)), *sides]
    made = of_boxes(np.random.default_rng(0), [(np.array(c), np.array(h)) for c, h in boards])
    return made.shape


@pytest.mark.parametrize(
    ('mesh', 'at'),
    [
        (torus(0.3, 0.1), (50.0, 0.0, 0.0)),
        (torus(0.15, 0.06), (-0.5, -0.9, 0.3)),
        (bin_of_boards(), (-0.45, 0.2, 0.1)),
    ],
    ids=['torus 50 m away', 'torus in reach', 'bin of five boards'],
)
def test_a_closed_mesh_makes_a_free_motion_cost_little_more(mesh, at):
    """An inside test of every body at every sample made it 7 to 28 times as much."""
    world = World().with_object(placed(mesh, *at))
    planners = [
        MotionPlanner(UR5, MotionSettings(), scene)
        for scene in (SCENE, replace(SCENE, world=world))
    ]
    q_a, q_b = elbow_up_at(0.45, -0.25, 0.15), elbow_up_at(0.45, 0.25, 0.15)
    spent = np.empty((4, 2))
    for times in spent:
        for k, planner in enumerate(planners):
            begin = process_time()
            planner.auto(q_a, [q_b])
            times[k] = process_time() - begin
    without, with_mesh = spent[1:].min(axis=0)
    assert with_mesh < 1.5 * without


def test_a_single_triangle_is_a_sheet_that_bars_the_way():
    sheet = Mesh(np.array([[-1.0, -1, 0], [1, -1, 0], [0, 2, 0]]), np.array([[0, 1, 2]]))
    assert contact(placed(sheet, 0.45, 0.1, 0.35)) is not None
    assert contact(placed(sheet, 0.45, 0.1, 3.0)) is None


@pytest.mark.parametrize('size', [1.0, 1e-3])
def test_a_flat_mesh_along_the_axes_bars_a_long_path(size):
    """Its bounding box has no volume."""
    sheet = Mesh(size * np.array([[-1.0, -1, 0], [1, -1, 0], [0, 2, 0]]), np.array([[0, 1, 2]]))
    tcp = np.diag([-1.0, -1.0, 1.0, 1.0]) @ forward(UR5, HOME) @ SCENE.tool.T_tool_tcp
    world = World().with_object(placed(sheet, *(tcp[:3, 3] + [0.0, 0.0, 0.03])))
    path = HOME + np.linspace(-0.3, 0.3, 40)[:, None] * np.eye(6)[0]
    assert CollisionModel(UR5, replace(SCENE, world=world)).check_path(path) is not None


@pytest.mark.parametrize('side', [1.0, -1.0])
def test_a_plane_is_solid_on_the_side_where_the_arm_does_not_stand(side):
    """Whichever way its normal points."""
    assert contact(placed(Plane(np.array([side, 0.0, 0.0]), side * 1.0))) is None
    found = contact(placed(Plane(np.array([side, 0.0, 0.0]), side * 0.3)))
    assert found is not None and found.distance < -0.1


def test_a_part_as_it_is_gripped_is_still_carried_when_an_object_comes():
    planner = make_planner()
    turned = pose(z=0.1)
    planner.carry(Load(0.5, np.array([0.0, 0.0, 0.2]), T_tcp_part=turned))
    world = World().with_object(placed(Sphere(0.1), 2.0, 2.0, 2.0))
    planner.set_scene(replace(SCENE, world=world))
    assert planner.scene.carried and np.array_equal(planner.scene.part.T_tcp_part, turned)
    assert planner.carried.mass == 0.5
    planner.carry(None)
    assert not planner.scene.carried and planner.scene.part is SCENE.part
    assert list(planner.scene.world.objects) == ['thing']


def test_what_is_attached_is_kept_off_and_its_weight_counts():
    dynamics = Dynamics(UR5, [Load(0.5, np.zeros(3))])
    planner = MotionPlanner(UR5, MotionSettings(), SCENE, dynamics)
    T = pose(z=0.2)

    def attach(length: float, mass: float) -> None:
        shapes = (PlacedShape(Cylinder(0.01, length), np.eye(4)),)
        rod = AttachedObject('rod', T, shapes, mass)
        planner.set_scene(replace(SCENE, world=World().with_attached(rod)))

    attach(1.2, 0.1)
    with pytest.raises(GateRefusal, match="attached object 'rod' is"):
        planner.ptp(HOME, HOME + 0.1)
    attach(0.1, 0.1)
    light = planner.ptp(HOME, HOME + 0.1).report.torque
    attach(0.1, 3.0)
    assert planner.ptp(HOME, HOME + 0.1).report.torque > light + 0.05
    attach(0.1, 60.0)
    with pytest.raises(PlanningError, match=r'N m|torque'):
        planner.ptp(HOME, HOME + 0.1)


def test_no_motion_is_admitted_while_an_object_is_refused():
    planner = make_planner()
    planner.set_scene(replace(SCENE, world=World(refused={'crate': 'object crate was refused'})))
    with pytest.raises(GateRefusal, match='object crate was refused'):
        planner.ptp(PICK, PICK + 0.01)
    assert 'object crate was refused' in planner.why_blocked(PICK[None])


def test_clients_objects_change_the_fingerprint_by_all_that_a_plan_relies_on():
    def digest(world: World) -> str:
        return replace(SCENE, world=world).fingerprint()

    rod = AttachedObject('rod', np.eye(4), (PlacedShape(Sphere(0.1), np.eye(4)),), 0.2)
    ball = placed(Sphere(0.1), 1.0, 0.0, 0.0)
    worlds = [
        World(),
        World().with_object(ball),
        World().with_object(placed(Sphere(0.11), 1.0, 0.0, 0.0)),
        World().with_object(placed(Sphere(0.1), 1.1, 0.0, 0.0)),
        World().with_object(placed(Sphere(0.1), 1.0, 0.0, 0.0, name='other')),
        World().with_object(placed(Cuboid([0.1, 0.1, 0.1]), 1.0, 0.0, 0.0)),
        World().with_attached(rod),
        World().with_attached(replace(rod, mass=0.3)),
        World().with_attached(replace(rod, may_touch=frozenset(['wrist_2']))),
    ]
    assert len({digest(world) for world in worlds}) == len(worlds)
    assert digest(World()) == SCENE.fingerprint()
    both = World().with_object(ball).with_object(placed(Sphere(0.1), name='a'))
    turned = World().with_object(placed(Sphere(0.1), name='a')).with_object(ball)
    assert digest(both) == digest(turned)


@pytest.mark.parametrize('corners', [[4, 4, 2], [4, 4, 4], [4, 5, 2]], ids=['two', 'one', 'line'])
def test_a_triangle_without_area_is_no_contact_with_a_carried_ball(corners, rng):
    """Decimators leave such triangles; coal's distance of a sphere to them is -radius."""
    ball, free = solid_of(Sphere(0.03)).geometry, 0
    for _ in range(100):
        vertices = rng.uniform(-0.3, 0.3, (5, 3))
        vertices = np.vstack([vertices, (vertices[4] + vertices[2]) / 2.0])
        mesh = Mesh(vertices, np.array([[0, 1, 2], [1, 2, 3], corners]))
        at, here = coal.Transform3s(np.eye(3), rng.uniform(-0.5, 0.5, 3)), coal.Transform3s()
        found, touched = coal.DistanceResult(), coal.CollisionResult()
        geometry = solid_of(mesh).geometry
        coal.distance(ball, at, geometry, here, coal.DistanceRequest(), found)
        coal.collide(ball, at, geometry, here, coal.CollisionRequest(), touched)
        assert touched.isCollision() == (found.min_distance <= 0.0)
        free += not touched.isCollision()
    assert free > 50


def test_a_tiny_part_inside_another_one_is_in_contact():
    T = T_BASE_BASE_LINK @ forward(UR5, HOME) @ SCENE.tool.T_tool_tcp
    other = Box('other', make_transform(np.eye(3), T[:3, 3]), np.full(3, 0.04), is_part=True)
    for size in (0.003, 0.0035, 0.01):
        part, tool = Part(np.eye(4), np.full(3, size)), Tool(SCENE.tool.T_tool_tcp)
        scene = Scene(-0.5, tool, boxes=(other,), part=part, carried=True)
        assert 'part is 2' in str(collision_model(UR5, scene).check(HOME))
