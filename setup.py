# SPDX-License-Identifier: Apache-2.0
import hashlib
import os
import re
from glob import glob
from pathlib import Path

from setuptools import Extension, find_packages, setup

NAME = 'ur5_pick_place'

SCALAR = Path(NAME, 'kinematics', 'scalar')
DIRECTIVES = {
    'language_level': 3,
    'annotation_typing': False,  # compiled.pxd has the types
    'infer_types': True,
    'boundscheck': False,
    'wraparound': False,
    'initializedcheck': False,
    'cdivision': True,
}
# No fused multiply-add: the same results as in plain Python. Loops without calls are vectorised
# (-O3); that their choices may be too (-fno-trapping-math) changes no result.
FLAGS = ['-O3', '-g0', '-fno-math-errno', '-fno-trapping-math', '-ffp-contract=off']


def compiled():
    """
    Return the compiled form of `scalar`, or nothing where Cython is missing or too old.

    All parts become one module, so that the compiler sees through calls between them. It carries
    the hash of its sources, and a name of its own, so that `kinematics/core.py` never takes it for
    another version of them.

    """
    if os.environ.get('UR5_PICK_PLACE_PLAIN'):
        return []
    try:
        from Cython.Build import cythonize

        parts = [*sorted(SCALAR.glob('[a-z]*.py')), SCALAR / 'compiled.pxd']
        *sources, types = (part.read_text(encoding='utf-8') for part in parts)
        source = ''.join(sources)
        digest = hashlib.sha256((source + types).encode()).hexdigest()
        top = Path('build', 'compiled')
        # Cython finds the types by these folders.
        copy = top / SCALAR.with_name('scalar_compiled.py')
        for folder in copy.relative_to(top).parents[:-1]:
            write_if_new(top / folder / '__init__.py', '')
        source = re.sub(rf'(?m)^from {NAME}\S* import (\([^)]*\)|.*)\n', '', source)
        # C's functions of one number, where plain Python has those of `math`.
        source = source.replace('\nfrom math import', '\nfrom cython.cimports.libc.math import')
        write_if_new(copy, f'{source}\n\nSOURCE_HASH = {digest!r}\n')
        write_if_new(copy.with_suffix('.pxd'), types)
        name = f'{NAME}.kinematics.{copy.stem}'
        (extension,) = cythonize(
            [Extension(name, [str(copy)], extra_compile_args=FLAGS)],
            include_path=[str(top)],
            compiler_directives=DIRECTIVES,
            quiet=True,
        )
        extension.optional = True  # no compiler fails no install
        return [extension]
    except Exception as error:
        print(f'kinematics stay plain Python, many times slower: {type(error).__name__}: {error}')
        return []


def write_if_new(path, text):
    """Write a file unless that is what it holds; a new file is compiled anew."""
    if not path.exists() or path.read_text(encoding='utf-8') != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')


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
    package_data={
        f'{NAME}.sim': ['*.xml'],
        f'{NAME}.trials': ['*.html'],
        f'{NAME}.kinematics.scalar': ['*.pxd'],
    },
    ext_modules=compiled(),
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
            f'ik_service = {NAME}.nodes.ros.entry_points:ik_service',
            f'trajectory_planner = {NAME}.nodes.ros.entry_points:trajectory_planner',
            f'pick_place = {NAME}.nodes.ros.entry_points:pick_place',
            f'sim_driver = {NAME}.nodes.ros.entry_points:sim_driver',
            f'recorder = {NAME}.nodes.ros.entry_points:recorder',
            f'cockpit = {NAME}.cockpit.command:main',
            f'cell = {NAME}.trials.live_cell:main',
            f'demo = {NAME}.trials.demo:main',
            f'move_to = {NAME}.trials.move_to:main',
            f'ik = {NAME}.commands.ik:main',
            f'fk = {NAME}.commands.fk:main',
            f'preflight = {NAME}.trials.preflight:main',
            f'compare = {NAME}.trials.compare:main',
            f'report = {NAME}.trials.report:main',
            f'faults = {NAME}.trials.faults:main',
            f'soak = {NAME}.trials.soak:main',
            f'cycle_diagram = {NAME}.commands.cycle_diagram:main',
        ],
    },
)
