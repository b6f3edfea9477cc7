# SPDX-License-Identifier: Apache-2.0
"""What every command does alike at the terminal."""

import errno
import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ur5_pick_place.terminal import Parser, quiet_pipe, run_main, seed_number

REPO = Path(__file__).parents[3]
CYCLE = REPO / 'config/cycle.yaml'


@pytest.mark.parametrize('text', ['-0.4', '-4e-1', '-.4E0', '-4'])
def test_a_negative_number_is_a_value_however_it_is_written(text):
    parser = Parser()
    parser.add_argument('--xyz', nargs=2, type=float)
    parser.add_argument('yaw', type=float)
    given = parser.parse_args([text, '--xyz', text, text])
    assert {given.yaw, *given.xyz} == {float(text)}


def test_numbers_may_be_parted_by_commas_and_begin_with_a_negative_one():
    parser = Parser()
    parser.add_argument('--start')
    assert parser.parse_args(['--start', '-0.3,0.4,0']).start.strip() == '-0.3,0.4,0'


def test_options_stay_options():
    parser = Parser()
    parser.add_argument('-n', type=int)
    parser.add_argument('x', type=float)
    assert vars(parser.parse_args(['-n-3', '-1e3'])) == {'n': -3, 'x': -1000.0}


@pytest.mark.parametrize('options', [[], ['-u']])
def test_a_command_that_nobody_reads_ends_in_silence(options):
    fk = Path(sys.executable).with_name('fk')
    words = [sys.executable, *options, fk, *'000000']
    command = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    command.stdout.close()
    assert command.stderr.read() == b''
    assert command.wait(30.0) == 141


@pytest.mark.parametrize('what', ['command.record_run', 'live_cell._run'])
def test_demo_and_cell_end_in_silence_when_their_reader_has_gone(what):
    module, long = what.split('.')
    words = (
        f'from ur5_pick_place.demo import {module} as m; import sys\n'
        f'm.{long} = lambda *_: (print("begins"), sys.stdin.read(), print("goes on"))\n'
        'sys.argv = ["as a user"]; m.main()'
    )
    pipes = dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.PIPE)
    with subprocess.Popen([sys.executable, '-c', words], **pipes) as command:
        while command.stdout.readline() != b'begins\n':
            pass
        command.stdout.close()
        command.stdin.close()
        assert command.stderr.read() == b''
        assert command.wait(60.0) == 141


@pytest.mark.parametrize('words', [['fk', *'000000'], ['pick_place', '--help']])
def test_a_full_disk_is_named_in_one_line(words):
    command = Path(sys.executable).with_name(words[0])
    with open('/dev/full', 'wb') as full:
        done = subprocess.run(
            [command, *words[1:]], stdout=full, stderr=subprocess.PIPE, timeout=60.0
        )
    assert done.stderr == b'the output cannot be written: No space left on device\n'
    assert done.returncode == 1


@pytest.mark.parametrize(
    ('number', 'words'),
    [
        (errno.EDQUOT, 'the output cannot be written: Disk quota exceeded'),
        (errno.EROFS, r'\w+: \[Errno 30\] Read-only file system'),
    ],
)
def test_what_the_system_refuses_is_named_in_one_line(number, words, monkeypatch):
    monkeypatch.setattr(os, 'dup2', lambda *_: None)
    with pytest.raises(SystemExit, match=words), quiet_pipe():
        raise OSError(number, os.strerror(number))


def test_a_stream_that_is_closed_takes_what_is_printed(monkeypatch):
    monkeypatch.setattr(sys, 'stdout', None)
    with quiet_pipe():
        print('nobody reads this')
        assert not sys.stdout.isatty()


def test_ctrl_c_while_a_command_loads_ends_it_in_silence():
    loading = (
        'import importlib, os, signal\n'
        'from ur5_pick_place.commands.entry_points import report\n'
        'signal.signal(signal.SIGINT, signal.default_int_handler)\n'
        'importlib.import_module = lambda name: os.kill(os.getpid(), signal.SIGINT)\n'
        'report()'
    )
    done = subprocess.run([sys.executable, '-c', loading], stderr=subprocess.PIPE, timeout=60.0)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b'')


def test_what_a_terminal_cannot_show_is_printed_as_an_escape():
    words = [Path(sys.executable).with_name('cycle_diagram'), CYCLE]
    environment = {**os.environ, 'PYTHONIOENCODING': 'latin-1'}
    shown = subprocess.run(words, capture_output=True, env=environment, timeout=60.0)
    assert shown.returncode == 0 and b'\\u21b7' in shown.stdout and not shown.stderr


@pytest.mark.parametrize('text', ['-1', '1.5', 'x', '', '1' * 19])
def test_a_seed_is_a_whole_number_of_bounded_length(text, capsys):
    parser = Parser(prog='soak')
    parser.add_argument('--seed', type=seed_number)
    with pytest.raises(SystemExit, match='2'):
        parser.parse_args(['--seed', text])
    assert f'{text!r}: must be a whole number, 0 or more' in capsys.readouterr().err
    assert parser.parse_args(['--seed', '18446744']).seed == 18446744


def test_a_library_that_rosdep_cannot_install_has_a_cure_of_its_own(monkeypatch, capsys):
    def no_ruckig(_name):
        raise ModuleNotFoundError("No module named 'ruckig'", name='ruckig')

    monkeypatch.setattr(importlib, 'import_module', no_ruckig)
    with pytest.raises(SystemExit, match='2'):
        run_main('nodes.trajectory_planner.node')
    (pinned,) = re.findall(r'^ruckig==\S+', (REPO / 'underlay/requirements.txt').read_text(), re.M)
    said = capsys.readouterr().err
    assert f'pip install {pinned} ' in said and 'rosdep' not in said
    assert f'pip install {pinned}\n' in (REPO / 'README.md').read_text()
