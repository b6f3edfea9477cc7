# SPDX-License-Identifier: Apache-2.0
"""Taught poses and their file: written whole or not at all, read with suspicion."""

import contextlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from ur5_pick_place.errors import InvalidInput

TAUGHT = ('home', 'start', 'target')
_FORMAT = 1
_MAX_BYTES = 100_000


@dataclass(frozen=True)
class Provenance:
    """
    What a taught pose depends on; a pose taught under another is not replayed.

    Attributes
    ----------
    robot : str
        Model name.
    calibration : str
        Hash of the calibration file; empty for nominal kinematics.
    tool : tuple of float
        T_tool_tcp as x, y, z [m], qx, qy, qz, qw.
    payload : float
        Mass of the tool [kg].

    """

    robot: str
    calibration: str
    tool: tuple[float, ...]
    payload: float


@dataclass(frozen=True)
class TaughtPose:
    """
    One place.

    Attributes
    ----------
    pose : tuple of float
        The TCP in `base`: x, y, z [m], qx, qy, qz, qw.
    joints : tuple of float
        [rad] in controller order; empty if only the pose was given.
    branch : str
        Of the joints; empty likewise.
    provenance : Provenance
    time : str
        When it was taught, ISO 8601, UTC.

    """

    pose: tuple[float, ...]
    provenance: Provenance
    time: str
    joints: tuple[float, ...] = field(default=())
    branch: str = ''

    @property
    def T_base_tcp(self) -> NDArray[np.float64]:
        """The pose as (4, 4)."""
        return matrix_from_numbers(self.pose)


def numbers_from_matrix(T: NDArray[np.float64]) -> tuple[float, ...]:
    """Return (4, 4) as x, y, z [m], qx, qy, qz, qw."""
    quat_xyzw = Rotation.from_matrix(T[:3, :3]).as_quat(canonical=True)
    return tuple(float(v) for v in (*T[:3, 3], *quat_xyzw))


def matrix_from_numbers(numbers: tuple[float, ...]) -> NDArray[np.float64]:
    """Return x, y, z [m], qx, qy, qz, qw as (4, 4)."""
    T = np.eye(4)
    T[:3, :3] = Rotation.from_quat(numbers[3:]).as_matrix()
    T[:3, 3] = numbers[:3]
    return T


def save_poses(path: Path, poses: Mapping[str, TaughtPose]) -> None:
    """Write all poses at once: a reader sees the old file or the new one, never a part."""
    content = {'format': _FORMAT, 'poses': {k: _plain(asdict(v)) for k, v in poses.items()}}
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix='.new')
    try:
        with os.fdopen(handle, 'w', encoding='utf-8') as file:
            yaml.safe_dump(content, file, sort_keys=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def load_poses(path: Path) -> dict[str, TaughtPose]:
    """
    Read taught poses; a file that does not exist holds none.

    Raises
    ------
    InvalidInput
        The file is malformed; names the pose and the entry. Nothing of it is used then.

    """
    if not path.exists():
        return {}
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InvalidInput(f'{path} is larger than {_MAX_BYTES} bytes: not a file of poses')
        content = yaml.safe_load(path.read_text(encoding='utf-8'))
        if content['format'] != _FORMAT:
            raise InvalidInput(f'format {content["format"]!r} is unknown, must be {_FORMAT}')
        return {str(name): _taught(name, entry) for name, entry in content['poses'].items()}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInput(f'taught poses {path}: {error}; delete it and teach again') from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidInput(
            f'taught poses {path}: {type(error).__name__} {error}; delete it and teach again'
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def _taught(name: Any, entry: Mapping[str, Any]) -> TaughtPose:
    if name not in TAUGHT:
        raise InvalidInput(f'pose {name!r} is unknown: {", ".join(TAUGHT)}')
    origin = entry['provenance']
    provenance = Provenance(
        str(origin['robot']),
        str(origin['calibration']),
        _numbers(name, 'tool', origin['tool'], 7),
        _numbers(name, 'payload', [origin['payload']], 1)[0],
    )
    pose = _numbers(name, 'pose', entry['pose'], 7)
    if abs(np.linalg.norm(pose[3:]) - 1.0) > 1e-3:
        raise InvalidInput(f'pose {name}: {pose[3:]} is not a unit quaternion')
    joints = entry['joints']
    return TaughtPose(
        pose,
        provenance,
        str(entry['time']),
        _numbers(name, 'joints', joints, 6) if joints else (),
        str(entry['branch']),
    )


def _numbers(name: Any, what: str, values: Any, n: int) -> tuple[float, ...]:
    numbers = tuple(float(v) for v in values)
    if len(numbers) != n or not np.isfinite(numbers).all():
        raise InvalidInput(f'pose {name}: {what} = {values} must be {n} finite numbers')
    return numbers
