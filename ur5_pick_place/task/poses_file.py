# SPDX-License-Identifier: Apache-2.0
"""The file of taught poses: written atomically, validated when read."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ur5_pick_place.config_files import MAX_BYTES, parse_yaml, read_bytes
from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics import BRANCHES
from ur5_pick_place.task.poses import TAUGHT, Provenance, TaughtPose

_FORMAT = 1
_FRAME = 'base'  # of every pose
_END = '\n...'  # YAML's end of a document: without it the file was cut short
_HEADER = '# Taught poses of ur5_pick_place. The last line must stay "...".\n'
_MALFORMED = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError)


class PosesFile:
    """
    Taught poses and the file that keeps them.

    A copy, `<name>.last`, is kept beside the file. A file that is cut short, or is no text, is
    damaged: the copy is used instead, and `warning` reports it. A complete file with an error in
    it was edited: it is refused, as is writing to a file that someone else has changed. Owner and
    permissions of the file are kept.

    Parameters
    ----------
    path : Path
        Read on construction; a file that does not exist holds no poses. A symlink is followed.

    Attributes
    ----------
    poses : mapping of str to TaughtPose
    warning : str
        Set if the copy was used; else empty.

    Raises
    ------
    InvalidInput
        The file cannot be used; names the pose and the entry.

    """

    def __init__(self, path: Path) -> None:
        self._path = path = Path(os.path.realpath(path))
        self._copy = path.with_name(f'{path.name}.last')
        self.poses: Mapping[str, TaughtPose] = {}
        self.warning = ''
        self._content = _read(path)
        if self._content is not None:
            self.poses = self._load(self._content)

    def _load(self, content: bytes) -> dict[str, TaughtPose]:
        damage = _damage(content)
        if not damage:
            return _parsed(self._path, content)
        copy = _read(self._copy)
        if copy is None or _damage(copy):
            raise InvalidInput(
                f'taught poses {self._path}: {damage}, and there is no whole copy '
                f'{self._copy.name}; delete it and teach again'
            )
        poses = _parsed(self._copy, copy)
        self.warning = f'taught poses {self._path}: {damage}; used its copy {self._copy.name}'
        return poses

    def keep(self, name: str, taught: TaughtPose) -> None:
        """
        Write one more pose, so that a reader sees either the old file or the new one.

        Raises
        ------
        ExecutionError
            Someone else has changed the file, or it cannot be written; the pose is not kept.

        """
        try:
            with self._alone():
                if _read(self._path) != self._content:
                    raise ExecutionError(
                        f'taught poses {self._path}: changed by someone else since this node read '
                        f'it; restart this node to read it, then teach {name} again'
                    )
                poses = {**self.poses, name: taught}
                content = _written(poses)
                _replace_both(self._path, self._copy, content)
                self.poses, self._content = poses, content
        except OSError as error:
            raise ExecutionError(
                f'taught poses {self._path} cannot be written: {error}; {name} is not taught'
            ) from error

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock out other writers; raises `OSError` if one is writing now."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        path = self._path.with_name(f'{self._path.name}.lock')
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with os.fdopen(lock, 'wb'):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield


def _read(path: Path) -> bytes | None:
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f'taught poses {path} cannot be read: {error}') from error
    if len(content) > MAX_BYTES:
        raise InvalidInput(f'{path} is larger than {MAX_BYTES} bytes: not a file of poses')
    return content


def _replace_both(path: Path, copy: Path, content: bytes) -> None:
    """Replace both files or neither: a full disk is detected before the first replacement."""
    files = [path.with_name(f'{path.name}.{suffix}') for suffix in ('new', 'new.last', 'old.last')]
    new, new_copy, old_copy = files
    try:
        before = _read(copy)
        _write(new, content, like=path)
        _write(new_copy, content, like=path)
        if before is not None:
            _write(old_copy, before, like=copy)
        os.replace(new_copy, copy)
        try:
            os.replace(new, path)
        except BaseException:
            copy.unlink() if before is None else os.rename(old_copy, copy)
            raise
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def _write(path: Path, content: bytes, like: Path) -> None:
    path.unlink(missing_ok=True)  # left over from a crash
    with path.open('xb') as file:
        with contextlib.suppress(FileNotFoundError):
            now = like.stat()
            os.fchmod(file.fileno(), stat.S_IMODE(now.st_mode))
            with contextlib.suppress(PermissionError):  # only root may change the owner
                os.fchown(file.fileno(), now.st_uid, now.st_gid)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _written(poses: Mapping[str, TaughtPose]) -> bytes:
    entries = {name: {'frame': _FRAME, **_plain(asdict(p))} for name, p in poses.items()}
    content = {'format': _FORMAT, 'poses': entries}
    text: str = yaml.safe_dump(content, sort_keys=False, explicit_end=True)
    return (_HEADER + text).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def _damage(content: bytes) -> str:
    """Return why a file is incomplete, neither as written by us nor edited; else ''."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        return f'no text ({error})'
    return '' if text.rstrip().endswith(_END) else 'cut short, as its last line is not "..."'


def _parsed(path: Path, content: bytes) -> dict[str, TaughtPose]:
    try:
        data = parse_yaml(content)
        if data['format'] != _FORMAT:
            raise InvalidInput(f'format {data["format"]!r} is unknown, must be {_FORMAT}')
        return {str(name): _taught(name, entry) for name, entry in data['poses'].items()}
    except _MALFORMED as error:
        raise InvalidInput(
            f'taught poses {path}: {type(error).__name__} {error}; correct it, or delete it and '
            'teach again'
        ) from error


def _taught(name: Any, entry: Mapping[str, Any]) -> TaughtPose:
    if name not in TAUGHT:
        raise InvalidInput(f'pose {name!r} is unknown: {", ".join(TAUGHT)}')
    if entry['frame'] != _FRAME:
        raise InvalidInput(f'pose {name}: frame {entry["frame"]!r} must be {_FRAME!r}')
    origin = entry['provenance']
    provenance = Provenance(
        str(origin['robot']),
        str(origin['calibration']),
        _pose(name, 'tool', origin['tool']),
        _numbers(name, 'payload', [origin['payload']], 1)[0],
    )
    joints, branch = entry['joints'], entry['branch']
    if name == 'home' and not joints:
        raise InvalidInput('pose home: joints are missing')
    if branch not in (BRANCHES if joints else ('',)):
        raise InvalidInput(f'pose {name}: branch {branch!r} is not one of {", ".join(BRANCHES)}')
    return TaughtPose(
        _pose(name, 'pose', entry['pose']),
        provenance,
        str(entry['time']),
        _numbers(name, 'joints', joints, 6) if joints else (),
        branch,
    )


def _pose(name: Any, what: str, values: Any) -> tuple[float, ...]:
    pose = _numbers(name, what, values, 7)
    if abs(np.linalg.norm(pose[3:]) - 1.0) > 1e-3:
        raise InvalidInput(f'pose {name}: {what}: {pose[3:]} is not a unit quaternion')
    return pose


def _numbers(name: Any, what: str, values: Any, n: int) -> tuple[float, ...]:
    numbers = tuple(float(v) for v in values)
    if len(numbers) != n or not np.isfinite(numbers).all():
        raise InvalidInput(f'pose {name}: {what} = {values} must be {n} finite numbers')
    return numbers
