# SPDX-License-Identifier: Apache-2.0
from glob import glob

from setuptools import Extension, find_packages, setup

NAME = 'ur5_pick_place'

try:
    from Cython.Build import cythonize
except ImportError as error:
    raise SystemExit(
        'the kinematics are compiled: install Cython, a C compiler and the headers of Python '
        '(Debian, Ubuntu: sudo apt-get install cython3 gcc python3-dev)'
    ) from error

# No fused multiply-add, so that results are the same on every machine. Loops without calls are
# vectorised (-O3); that their choices may be too (-fno-trapping-math) changes no result.
FLAGS = ['-O3', '-g0', '-fno-math-errno', '-fno-trapping-math', '-ffp-contract=off']
IK = Extension(
    f'{NAME}.kinematics._ik', [f'{NAME}/kinematics/_ik.pyx'], extra_compile_args=FLAGS
)

setup(
    name=NAME,
    version='1.0.0',
    description='Pick and place with a UR5: analytic kinematics, checked motion, the same nodes '
    'on the robot and in simulation.',
    license='Apache-2.0',
    maintainer='ur5_pick_place maintainers',
    maintainer_email='maintainers@ur5-pick-place.invalid',
    python_requires='>=3.10',  # that of ROS 2 Humble; without ROS `underlay` needs 3.11
    packages=find_packages(include=[NAME, f'{NAME}.*']),
    package_data={
        f'{NAME}.sim': ['arms/*.yaml'],
        f'{NAME}.sim.physics': ['*.xml'],
        f'{NAME}.cockpit': ['*.css', '*.js'],
        f'{NAME}.report': ['*.html'],
        f'{NAME}.kinematics': ['*.json', '*.pyi', '*.pyx'],
    },
    ext_modules=cythonize([IK], build_dir='build/cython', quiet=True),
    install_requires=['numpy'],  # for the kinematics; of the rest, package.xml says what it needs
    zip_safe=False,
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{NAME}']),
        (f'share/{NAME}', ['package.xml']),
        (f'share/{NAME}/launch', glob('launch/*.launch.py')),
        (f'share/{NAME}/config', glob('config/*')),
    ],
    entry_points={
        'console_scripts': [
            f'ik_service = {NAME}.nodes.ros.entry_points:ik_service',
            f'trajectory_planner = {NAME}.nodes.ros.entry_points:trajectory_planner',
            f'pick_place = {NAME}.nodes.ros.entry_points:pick_place',
            f'sim_driver = {NAME}.nodes.ros.entry_points:sim_driver',
            f'recorder = {NAME}.nodes.ros.entry_points:recorder',
            f'cockpit = {NAME}.nodes.ros.entry_points:cockpit',
            f'cell = {NAME}.commands.entry_points:cell',
            f'demo = {NAME}.commands.entry_points:demo',
            f'move_to = {NAME}.commands.entry_points:move_to',
            f'ik = {NAME}.commands.entry_points:ik',
            f'fk = {NAME}.commands.entry_points:fk',
            f'preflight = {NAME}.commands.entry_points:preflight',
            f'compare = {NAME}.commands.entry_points:compare',
            f'report = {NAME}.commands.entry_points:report',
            f'sim_controller = {NAME}.commands.entry_points:sim_controller',
            f'cycle_diagram = {NAME}.commands.entry_points:cycle_diagram',
        ],
    },
)
