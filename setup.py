# SPDX-License-Identifier: Apache-2.0
from glob import glob

from setuptools import find_packages, setup

NAME = 'ur5_pick_place'

setup(
    name=NAME,
    version='0.1.0',
    description='Pick and place with a UR5: analytic kinematics, checked motion, the same nodes '
    'on the robot and in simulation.',
    license='Apache-2.0',
    maintainer='ur5_pick_place maintainers',
    maintainer_email='maintainers@ur5-pick-place.invalid',
    python_requires='>=3.10',
    packages=find_packages(include=[NAME, f'{NAME}.*']),
    package_data={f'{NAME}.sim': ['*.xml']},
    install_requires=['setuptools'],
    zip_safe=False,
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{NAME}']),
        (f'share/{NAME}', ['package.xml']),
        (f'share/{NAME}/launch', glob('launch/*.launch.py')),
        (f'share/{NAME}/config', glob('config/*')),
    ],
    entry_points={
        'console_scripts': [
            f'ik_service = {NAME}.nodes.entry_points:ik_service',
            f'trajectory_planner = {NAME}.nodes.entry_points:trajectory_planner',
            f'pick_place = {NAME}.nodes.entry_points:pick_place',
            f'sim_driver = {NAME}.nodes.entry_points:sim_driver',
            f'demo = {NAME}.trials.demo:main',
            f'move_to = {NAME}.commands.move_to:main',
            f'ik = {NAME}.commands.ik:main',
            f'fk = {NAME}.commands.fk:main',
            f'compare = {NAME}.trials.compare:main',
            f'report = {NAME}.trials.report:main',
            f'faults = {NAME}.trials.faults:main',
            f'soak = {NAME}.trials.soak:main',
            f'cycle_diagram = {NAME}.commands.cycle_diagram:main',
        ],
    },
)
