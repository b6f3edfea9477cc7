# SPDX-License-Identifier: Apache-2.0
"""Processes of the demo: a domain of their own, an honest end, and none left behind."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import NoReturn

import pytest
from pace import until

from ur5_pick_place.demo import processes as demo_processes
from ur5_pick_place.demo.processes import NodeProcesses, own_domain, working_folder
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.nodes.cell.node_list import NodeSpec
from ur5_pick_place.terminal import Ended

pytestmark = pytest.mark.nodes

SLEEPER = 'echo "domain $ROS_DOMAIN_ID"; exec sleep 60'
STUBBORN = 'trap "" INT; echo ready; while true; do sleep 0.1; done'
WRITER = 'trap "sleep 1; echo written; exit" INT; echo ready; while true; do sleep 0.1; done'
QUICK = 'echo first; echo "no table" >&2; exit 3'


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, NodeSpec]:
    """Shell scripts for nodes, beside the command that is running."""
    monkeypatch.setattr(sys, 'argv', [str(tmp_path / 'demo')])
    scripts = {'sleeper': SLEEPER, 'stubborn': STUBBORN, 'quick': QUICK, 'recorder': WRITER}
    for name, text in scripts.items():
        (tmp_path / name).write_text(f'#!/bin/sh\n{text}\n')
        (tmp_path / name).chmod(0o755)
    return {name: NodeSpec(name, '', (), {}, ()) for name in scripts}


def is_running(pid: int) -> bool:
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] != 'Z'
    except FileNotFoundError:
        return False


def test_nodes_are_in_the_domain_out_of_reach_of_ctrl_c_and_end_with_the_context(specs, tmp_path):
    """In sessions of their own nodes wait for each other for up to 0.28 s on a busy machine."""
    with NodeProcesses([specs['sleeper']], 17, tmp_path) as nodes:
        (pid,) = nodes.pids.values()
        until(lambda: nodes.log().endswith('domain 17\n'), 'the log')
        nodes.check()
        assert is_running(pid)
        assert os.getpgid(pid) == pid != os.getpgid(0)
        assert os.getsid(pid) == os.getsid(0)
    assert not is_running(pid)


def test_a_node_that_ended_or_was_killed_is_named_with_its_last_words_or_its_signal(
    specs, tmp_path
):
    with NodeProcesses([specs['sleeper'], specs['quick']], 17, tmp_path) as nodes:
        until(lambda: not is_running(nodes.pids['quick']), 'its end')
        with pytest.raises(ExecutionError, match=r'(?s)quick ended with exit code 3.*no table'):
            nodes.check()
        os.kill(nodes.pids['sleeper'], signal.SIGKILL)
        until(lambda: not is_running(nodes.pids['sleeper']), 'its end')
        with pytest.raises(ExecutionError, match='sleeper was killed by SIGKILL'):
            nodes.check()


def test_a_node_that_will_not_end_is_killed_within_two_seconds_beside_a_recorder_that_writes(
    specs, tmp_path
):
    with NodeProcesses([specs['recorder'], specs['stubborn']], 17, tmp_path) as nodes:
        until(lambda: nodes.log().count('ready') == 2, 'the traps to be set')
        begin = time.monotonic()
    assert time.monotonic() - begin < 2.0
    assert not is_running(nodes.pids['stubborn']) and 'written' in nodes.log()


def test_a_missing_executable_ends_those_already_started(specs, tmp_path, monkeypatch):
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        demo_processes.subprocess,
        'Popen',
        lambda *a, **k: started.append(popen(*a, **k)) or started[-1],
    )
    missing = NodeSpec('no_such_node', '', (), {}, ())
    with pytest.raises(ExecutionError, match='no_such_node is neither next to'):
        NodeProcesses([specs['sleeper'], missing], 17, tmp_path)
    assert len(started) == 1
    assert not is_running(started[0].pid)


def test_nodes_die_with_a_demo_that_is_killed(specs, tmp_path):
    program = f"""
        import sys, time
        from pathlib import Path
        from ur5_pick_place.demo.processes import NodeProcesses
        from ur5_pick_place.nodes.cell.node_list import NodeSpec
        sys.argv[0] = {str(tmp_path / 'demo')!r}
        specs = [NodeSpec('stubborn', '', (), {{}}, ())]
        nodes = NodeProcesses(specs, 17, Path({str(tmp_path)!r}))
        print(*nodes.pids.values(), flush=True)
        time.sleep(60)
    """
    demo = subprocess.Popen(
        [sys.executable, '-c', textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    assert demo.stdout is not None
    pid = int(demo.stdout.readline())
    assert is_running(pid)
    demo.kill()
    demo.communicate()
    until(lambda: not is_running(pid), 'the node to die', 2.0)


@pytest.mark.parametrize('is_killed', [True, False])
def test_a_working_folder_goes_with_its_process(is_killed):
    code = (
        'import time\nfrom ur5_pick_place.demo.processes import working_folder\n'
        'with working_folder() as folder:\n'
        '    (folder / "log").write_text("x")\n'
        f'    print(folder, flush=True)\n    time.sleep({60 * is_killed})'
    )
    with subprocess.Popen(
        [sys.executable, '-c', code], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        folder = Path(process.stdout.readline().strip())
        if is_killed:
            assert (folder / 'log').exists()
            process.kill()
    until(lambda: not folder.exists(), f'{folder} to go')


def test_ctrl_c_while_a_working_folder_is_made_leaves_none(monkeypatch, tmp_path):
    def interrupted(*_words, **_options) -> NoReturn:
        raise Ended(signal.SIGINT)

    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
    monkeypatch.setattr(subprocess, 'Popen', interrupted)
    with pytest.raises(Ended), working_folder():
        pass
    assert not list(tmp_path.iterdir())


def test_no_code_of_ours_runs_between_fork_and_exec(specs, tmp_path):
    """It might wait for a lock that another thread held when this process was copied."""
    program = f"""
        import os, sys
        from pathlib import Path
        from ur5_pick_place.demo.processes import NodeProcesses
        from ur5_pick_place.nodes.cell.node_list import NodeSpec
        sys.argv[0] = {str(tmp_path / 'demo')!r}
        os.register_at_fork(after_in_child=lambda: os.write(1, b'in the child'))
        with NodeProcesses([NodeSpec('sleeper', '', (), {{}}, ())], 17, Path({str(tmp_path)!r})):
            pass
    """
    words = [sys.executable, '-c', textwrap.dedent(program)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == ''


def test_two_demos_at_once_get_two_domains():
    with own_domain() as first, own_domain() as second:
        assert first != second
        assert 1 <= min(first, second) <= max(first, second) <= 101


def test_a_domain_that_somebody_uses_is_left_alone(monkeypatch):
    """Also when only its second process is still there."""
    # Two that are free: other demos may run on this machine, or other tests.
    with own_domain() as used, own_domain() as other:
        monkeypatch.setattr(demo_processes, '_DOMAINS', [used, other])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as somebody:
        somebody.bind(('', 7410 + 250 * used + 2))
        with own_domain() as chosen:
            assert chosen == other
            with pytest.raises(ExecutionError, match='in use'), own_domain():
                pass
