# SPDX-License-Identifier: Apache-2.0
"""Locate config/, read YAML files strictly, as they are written by hand, and write files."""

import contextlib
import difflib
import fcntl
import math
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ur5_pick_place.errors import InvalidInput, quoted

T = TypeVar('T')

MAX_BYTES = 100_000
_LARGEST = 2**63  # as for ROS parameters
_MAX_DEPTH = 30  # of brackets; PyYAML takes hours for thousands
_LIKE = 0.8  # ratio of `difflib` above which a name is taken for a misspelt one

class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """
    A loader that refuses what makes a short file large: aliases, depth and huge numbers.

    It also refuses duplicate keys, of which PyYAML would keep the last.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise _marked(f'alias *{event.anchor}: write the value', event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key_node, _value in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key_node, yaml.ScalarNode):
                key = self.construct_object(key_node)
                if key in seen:
                    raise _marked(f'{key!r} is given twice: remove one', key_node.start_mark)
                seen.add(key)
        return super().construct_mapping(node, deep)

    def fetch_flow_collection_start(self, kind: Any) -> None:
        if self.flow_level >= _MAX_DEPTH:
            problem = f'more than {_MAX_DEPTH} nested brackets'
            raise _marked(problem, self.get_mark())
        super().fetch_flow_collection_start(kind)

    def whole_number(self, node: Any) -> int:
        number = self.construct_yaml_int(node)
        if abs(number) >= _LARGEST:
            raise _marked('a number exceeds 64 bits', node.start_mark)
        return int(number)

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        tag = super().resolve(kind, value, implicit)
        is_text = tag.endswith(('int', 'float')) and ':' in value  # 1:30 is 90 for YAML 1.1 alone
        return 'tag:yaml.org,2002:str' if is_text or tag.endswith('timestamp') else tag

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except Exception as error:  # PyYAML raises any kind on malformed dates and numbers
            raise _marked(f'{type(error).__name__} {error}', node.start_mark) from error


def _marked(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


_Loader.add_constructor('tag:yaml.org,2002:int', _Loader.whole_number)
# 1e-5 and -.5 are text for PyYAML, and numbers for everybody else, ROS and the driver included.
_Loader.add_implicit_resolver(
    'tag:yaml.org,2002:float',
    re.compile(r'[-+]?(\d+(\.\d*)?[eE][-+]?\d+|\.\d+([eE][-+]?\d+)?)$'),
    list('-+.0123456789'),
)


def parse_yaml(content: bytes) -> Any:
    """
    Return the content of a YAML text.

    Raises `InvalidInput`: it is larger than `MAX_BYTES`, not text, not YAML, or has an alias or a
    duplicate key.
    """
    try:
        return _parsed(content)[0]
    except _Malformed as error:
        line = f', line {error.line}' if error.line else ''
        raise InvalidInput(f'{error}{line}') from error


class _Malformed(InvalidInput):
    """Not YAML as we read it; `line` is that of the error, 0 if it has none."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def _parsed(content: bytes) -> tuple[Any, Any]:
    """Return the content of a YAML text and its root node, which is None without content."""
    if len(content) > MAX_BYTES:
        raise _Malformed(f'larger than {MAX_BYTES} bytes', 0)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b'\n', 0, error.start) + 1
        raise _Malformed(f'{error}: must be UTF-8', line) from error
    loader = None
    try:
        loader = _Loader(text)  # which looks for characters that YAML forbids
        node = loader.get_single_node()
        return (None if node is None else loader.construct_document(node)), node
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        texts = [' '.join(text.split()) for text in (error.context, error.problem) if text]
        kind = '' if type(error) is yaml.MarkedYAMLError else f'{type(error).__name__} '
        raise _Malformed(f'{kind}{", ".join(texts)}', mark.line + 1 if mark else 0) from error
    except yaml.reader.ReaderError as error:
        line = text.count('\n', 0, error.position) + 1
        raise _Malformed(f'character {error.character!r} is not allowed', line) from error
    except Exception as error:  # of any kind, also beyond the depth of recursion
        why = f'{type(error).__name__} {" ".join(str(error).split())}'
        raise _Malformed(why, loader.line + 1 if loader else 0) from error


def _line_of(node: Any, key: str) -> int:
    """Return the line of an entry such as 'stages[3].to', or of its nearest parent that exists."""
    line = node.start_mark.line + 1
    for word in re.findall(r'[^.\[\]]+', key):
        if isinstance(node, yaml.SequenceNode) and word.isdigit() and int(word) < len(node.value):
            node = node.value[int(word)]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode):
            found = [(k, value) for k, value in node.value if k.value == word]
            if not found:
                break
            line, node = found[-1][0].start_mark.line + 1, found[-1][1]
        else:
            break
    return int(line)


def user_path(path: str | Path) -> Path:
    """
    Return a path with the values of `~` and `$HOME`, as no shell puts them into `name:=~/file`.

    Raises `InvalidInput`: the home directory or the variable in front is unknown.
    """
    expanded = os.path.expandvars(path)
    if expanded.startswith('$'):  # else a folder of that name would be made
        raise InvalidInput(f'{path}: its first folder is no variable that is set: write it out')
    try:
        return Path(expanded).expanduser()
    except RuntimeError as error:
        raise InvalidInput(f'{path}: its ~ is unknown: write the folder, or set HOME') from error


def read_bytes(path: str | Path) -> bytes:
    """
    Return the first `MAX_BYTES` + 1 bytes of a file; `~` is the home directory.

    Raises `OSError`: it cannot be read, or is a folder, a pipe or a device instead of a file.
    `InvalidInput`: the home directory is unknown.
    """
    path = user_path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):  # an empty pipe would keep us
        raise OSError(f'{path} is a pipe or a device: must be a file')
    with path.open('rb') as file:
        return file.read(MAX_BYTES + 1)


def write_atomically(path: Path, content: bytes, like: Path | None = None) -> None:
    """
    Write a file, so that a reader finds the old content or the new one, also after a crash.

    It keeps its mode and owner, or gets those of the file `like`. A symlink is followed.

    Raises `OSError`: it cannot be written; the old file is left.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    # Of each writer its own: two leave the file whole without a lock.
    new = path.with_name(f'{path.name}.{os.getpid()}-{threading.get_ident()}.new')
    new.unlink(missing_ok=True)  # left over from a crash
    try:
        with new.open('xb') as file:
            with contextlib.suppress(FileNotFoundError):
                now = (like or path).stat()
                os.fchmod(file.fileno(), stat.S_IMODE(now.st_mode))
                with contextlib.suppress(PermissionError):  # only root may change the owner
                    os.fchown(file.fileno(), now.st_uid, now.st_gid)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def read_yaml(path: str | Path, what: str) -> Any:
    """
    Return the content of a YAML file.

    `what`: names the file in an error, such as 'scene file'.

    Raises `InvalidInput`: the file cannot be read; gives the reason.
    """
    return load_yaml(path, what, lambda content: content)


def _read(path: str | Path, what: str) -> tuple[Any, Any]:
    """Return the content of a YAML file and its root node; errors as `read_yaml`."""
    try:
        return _parsed(read_bytes(path))
    except _Malformed as error:
        name = f'{path}:{error.line}:' if error.line else path
        raise InvalidInput(f'{what} {name} cannot be read: {error}') from error
    except OSError as error:
        raise InvalidInput(f'{what} {path} cannot be read: {error}') from error


def load_yaml(path: str | Path, what: str, build: Callable[[Any], T]) -> T:
    """
    Return what `build` makes of the content of a YAML file.

    - `path`, `what`: as for `read_yaml`
    - `build`: such as `from_dict` of a settings class; raises `InvalidInput` for bad content

    Raises `InvalidInput`: the file cannot be read, or `build` refuses it; names the file and the
    line of the error's `key`.
    """
    content, root = _read(path, what)
    try:
        return build(content)
    except InvalidInput as error:
        line = _line_of(root, error.key) if root else 1  # an empty file has no nodes
        raise InvalidInput(f'{what} {path}:{line}: {error}') from error


@contextlib.contextmanager
def locked(folder: Path, timeout: float = math.inf) -> Iterator[int]:
    """Lock a folder and give its handle; `BlockingIOError` if others have it for `timeout` [s]."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    deadline = time.monotonic() + timeout
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield handle
    finally:
        os.close(handle)


def read_parameters(path: Path, node: str = '') -> dict[str, Any]:
    """
    Return the parameters in a parameter file, by name.

    `node`: full name of the node that they are for, as ROS chooses them; empty for all nodes.

    Raises `InvalidInput`: the file cannot be read, or holds no mapping.
    """
    content = read_yaml(path, 'parameter file')
    if not isinstance(content, dict | None):
        raise InvalidInput(
            f'parameter file {path}: must hold `ros__parameters:` under each node, not '
            f'{quoted(content)}'
        )
    return {
        name: value
        for key, parameters in _sections(content)
        if not node or re.fullmatch(_names_matching(key), node)
        for name, value in parameters.items()
    }


def _sections(content: Any, key: str = '') -> Iterator[tuple[str, dict[str, Any]]]:
    if not isinstance(content, dict):
        return
    for name, value in content.items():
        if name == 'ros__parameters' and isinstance(value, dict):
            yield key, value
        else:
            yield from _sections(value, f'{key}/{str(name).strip("/")}')


def misnamed_sections(path: Path, node: str) -> list[str]:
    """
    Return the sections of a parameter file that are not for a node, and yet may be meant for it.

    Their name is nearly the node's; or it is the node's, in another namespace, and no section has
    its full name. Other sections are those of other nodes. `node`, errors: as `read_parameters`.
    """
    name = node.rpartition('/')[2]
    like = {
        key: bool(re.fullmatch(_names_matching(key), node))
        for key, _ in _sections(read_yaml(path, 'parameter file'))
        if difflib.get_close_matches(key.rpartition('/')[2], [name], 1, _LIKE)
    }
    is_named = any(like.values())
    return [k for k, ours in like.items() if not (ours or (is_named and k.endswith(f'/{name}')))]


# What ROS looks for first if a parameter has values of several types; then lists, in this order.
_TYPES = (bool, int, float, str)


def check_types(sources: Iterable[tuple[str, Any]]) -> None:
    """
    Refuse a parameter that ROS would ignore for an earlier one of another type.

    ROS keeps a value of each type, and uses the first in the order of `_TYPES`, not the last one.

    `sources`: name and content of each file, in the order in which ROS reads them.
    """
    used: dict[tuple[str, str], tuple[int, str]] = {}
    for source, content in sources:
        for key, parameters in _sections(content):
            for name, value in parameters.items():
                rank, text = _rank(value), f'{quoted(value)} of {source}'
                before, winner = used.get((key, name), (rank, text))
                if before < rank:
                    raise InvalidInput(
                        f'{source}: {name} = {quoted(value)}: ROS would ignore it for {winner}, '
                        'which is of another type: write it as one of that type'
                    )
                used[key, name] = rank, text


def _rank(value: Any) -> int:
    if isinstance(value, list):
        return len(_TYPES) + (_rank(value[0]) if value else len(_TYPES))
    return _TYPES.index(type(value)) if type(value) in _TYPES else len(_TYPES) - 1


def _names_matching(key: str) -> str:
    """Return the pattern of the full names of the nodes that a section is for."""
    pattern = re.escape(key).replace(r'/\*\*', r'(/\w+)*')
    return pattern.replace(r'/\*', r'/\w+')


_NAME = 'ur5_pick_place'


def share_directory() -> Path:
    """
    Return the checkout, or the share folder of the prefix in which the package is installed.

    Raises `InvalidInput`: neither exists.
    """
    for parent in Path(__file__).resolve().parents[1:]:
        for folder in (parent, parent / 'share' / _NAME):
            if (folder / 'config' / 'cycle.yaml').is_file():
                return folder
    raise InvalidInput(f'{_NAME}: no config folder near {__file__}: install the package again')
