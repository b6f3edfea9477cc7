# SPDX-License-Identifier: Apache-2.0
"""The file of taught poses: written atomically, validated when read."""

import contextlib
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ur5_pick_place.config_files import (
    MAX_BYTES,
    locked,
    parse_yaml,
    read_bytes,
    write_atomically,
)
from ur5_pick_place.errors import ExecutionError, InvalidInput, quoted
from ur5_pick_place.kinematics import BRANCHES, JOINT_NAMES
from ur5_pick_place.settings import REQUIRED, Settings, setting
from ur5_pick_place.task.places.names import HOME, check_name
from ur5_pick_place.task.places.poses import TaughtPose

_FORMAT = 1
_FRAME = 'base'  # of every pose
_END = '\n...'  # YAML's end of a document: without it the file was cut short
_TIMEOUT = 1.0  # [s] for another writer in the folder
_HEADER = '# Taught poses of ur5_pick_place. The last line must stay "...".\n'


@dataclass(frozen=True, kw_only=True)
class _Entry(TaughtPose):
    frame: str = setting(REQUIRED, 'of the pose', kind=str, choices=(_FRAME,))

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.joints) not in (0, len(JOINT_NAMES)):
            joints = quoted(list(self.joints))
            raise InvalidInput(f'joints = {joints}: must have 6 entries, or none')
        if self.branch not in (BRANCHES if self.joints else ('',)):
            known = f'one of {", ".join(BRANCHES)}' if self.joints else 'empty without joints'
            raise InvalidInput(f'branch = {quoted(self.branch)}: must be {known}')
        for what, pose in (('pose', self.pose), ('provenance.tool', self.provenance.tool)):
            if abs(np.linalg.norm(pose[3:]) - 1.0) > 1e-3:
                raise InvalidInput(f'{what}: {quoted(list(pose[3:]))} is not a unit quaternion')

    def taught(self) -> TaughtPose:
        """Return the pose without what only the file needs."""
        return TaughtPose(**{f.name: getattr(self, f.name) for f in fields(TaughtPose)})


@dataclass(frozen=True)
class _Content(Settings):
    title = 'content'

    format: int = setting(REQUIRED, 'version of this layout', kind=int)
    poses: dict[str, _Entry] = setting(REQUIRED, 'by place', kind=dict, of=_Entry)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.poses:
            check_name(name, 'poses: key')
        if HOME in self.poses and not self.poses[HOME].joints:
            raise InvalidInput(f'poses.{HOME}: joints are missing')


class PosesFile:
    """
    Taught poses and the file that keeps them, also those of places that no present cycle has.

    A copy, `<name>.last`, is kept beside the file. A file that is cut short, or is no text, is
    damaged: the copy is used instead, and `warning` reports it. A complete file with an error in
    it was edited: it is refused, as is writing to a file that someone else has changed. Owner and
    permissions of the file are kept.

    `path`: read on construction; a file that does not exist holds no poses. A symlink is followed.

    `warning`: set if the copy was used; else empty.

    Raises `InvalidInput`: the file cannot be used; names the pose and the entry.
    """

    def __init__(self, path: Path) -> None:
        self._path = path = Path(os.path.realpath(path))
        self._copy = path.with_name(f'{path.name}.last')
        self._keeping = threading.Lock()  # as two places may be taught at once
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
                f'taught poses {self._path}: {damage}, and its backup '
                f'{self._copy.name} is missing or damaged; set another poses_file, or delete it'
            )
        poses = _parsed(self._copy, copy)
        self.warning = f'taught poses {self._path}: {damage}; used its copy {self._copy.name}'
        return poses

    def check_unchanged(self) -> None:
        """Raise `ExecutionError` if someone else has changed the file since it was read."""
        with self._keeping:  # else a pose that is being kept looks like someone else's
            self._check_unchanged()

    def _check_unchanged(self) -> None:
        if _read(self._path) != self._content:
            raise ExecutionError(
                f'taught poses {self._path}: changed by someone else since this node read it, '
                'perhaps by another cell: give that one a poses_file of its own; restart this '
                'node to read the change, then try again'
            )

    def keep(self, name: str, taught: TaughtPose) -> None:
        """
        Write one more pose, so that a reader sees either the old file or the new one.

        Raises `ExecutionError`: someone else has changed the file, or it cannot be written; the
        pose is not kept.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._keeping, locked(self._path.parent, _TIMEOUT):
                self._check_unchanged()
                poses = {**self.poses, name: taught}
                content = _written(poses)
                if len(content) > MAX_BYTES:
                    raise ExecutionError(
                        f'taught poses {self._path}: {len(poses)} poses are more than the '
                        f'{MAX_BYTES} bytes of a file of poses: {name} is not taught; delete '
                        'those that no cycle needs, and restart this node'
                    )
                write_atomically(self._path, content)
                self.poses, self._content = poses, content
                with contextlib.suppress(OSError):  # the file itself is whole
                    write_atomically(self._copy, content, like=self._path)
        except OSError as error:
            raise ExecutionError(
                f'taught poses {self._path} cannot be written: {error}; {name} is not taught'
            ) from error


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
    """Return why a file is damaged, being no text or cut short; '' if it is complete."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        return f'no text ({error})'
    is_whole = text.rstrip().endswith(_END)
    return '' if is_whole else 'cut short or no taught poses, as its last line is not "..."'


def _parsed(path: Path, content: bytes) -> dict[str, TaughtPose]:
    try:
        data = parse_yaml(content)
        if isinstance(data, dict) and data.get('format', _FORMAT) != _FORMAT:
            raise InvalidInput(f'format {data["format"]!r} is unknown, must be {_FORMAT}')
        entries = _Content.from_dict(data).poses
    except InvalidInput as error:
        raise InvalidInput(
            f'taught poses {path}: {error}; correct it, or delete it and teach again'
        ) from error
    return {name: entry.taught() for name, entry in entries.items()}
