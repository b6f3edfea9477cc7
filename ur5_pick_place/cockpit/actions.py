# SPDX-License-Identifier: Apache-2.0
"""What can be requested in which state; the task node decides, the page only greys out."""

from dataclasses import dataclass

STOP = 'Stop'
TEACH = 'Teach '
FREEDRIVE = 'Freedrive'

SERVICES = {
    'Plan': 'plan',
    'Run': 'run',
    'Pause': 'pause',
    'Resume': 'resume',
    'Rearm': 'rearm',
    'Go home': 'go_home',
    'Init gripper': 'init_gripper',
    'Open gripper': 'open_gripper',
    'Close gripper': 'close_gripper',
}
"""Button -> service of the task node, in the order of the page."""

JOG = 'a jog button'
_JOBS = {'Plan', 'Run', 'Go home', 'Init gripper', 'Open gripper', 'Close gripper', FREEDRIVE}


@dataclass(frozen=True)
class CellState:
    """What the nodes have published."""

    task: str = ''  # of `pick_place/state`; empty if that node is not there
    planner: str = ''  # of `trajectory_planner/motion_state`; empty if that node is not there

    @property
    def kind(self) -> str:
        """The task's state without its detail."""
        return self.task.partition(':')[0]

    @property
    def is_stopped(self) -> bool:
        return self.kind == 'stopped' or self.planner.startswith('stopped')

    @property
    def reason(self) -> str:
        """Why it is stopped; empty if it is not."""
        for text in (self.task, self.planner):
            kind, _, reason = text.partition(': ')
            if kind == 'stopped':
                return reason
        return ''


def why_not(button: str, state: CellState) -> str:
    """Return why a button would be refused now; empty if it may be tried."""
    kind = state.kind
    if button == JOG:
        return _why_no_jog(state)
    if not kind:
        return 'pick_place is not there: start it'
    if button == 'Rearm':
        return '' if state.is_stopped else 'nothing is stopped'
    if button == 'Pause':
        return '' if kind == 'running' else 'no cycle is running'
    if button == 'Resume':
        return '' if kind == 'paused' else 'nothing is paused'
    if button.startswith(TEACH):
        return f'{kind}: wait, or Stop' if kind in ('running', 'busy') else ''
    if button in _JOBS:
        return _why_no_job(button, kind, state.is_stopped)
    return ''


def _why_no_jog(state: CellState) -> str:
    if not state.planner:
        return 'trajectory_planner is not there: start it'
    if state.planner.startswith('stopped'):
        return 'stopped: Rearm first'
    if state.kind == 'freedrive':
        return 'the arm is in freedrive: end it first'
    return f'{state.kind}: wait, or Stop' if state.kind in ('running', 'paused', 'busy') else ''


def _why_no_job(button: str, kind: str, is_stopped: bool) -> str:
    if is_stopped:
        return '' if button == FREEDRIVE else 'stopped: Rearm first'  # it ends freedrive
    if kind == 'freedrive':
        return '' if button == FREEDRIVE else 'the arm is in freedrive: end it first'
    if kind not in ('idle', 'planned'):
        return f'{kind}: wait, or Stop'
    if button == 'Run' and kind != 'planned':
        return 'Plan first'
    return ''


def advice(state: CellState, has_run: bool = False) -> str:
    """Return what to do next, in one line; `has_run` = the present plan was run."""
    if has_run and state.kind == 'planned' and not state.is_stopped:
        return 'The plan is still there: Run again, or Plan.'
    if not state.kind:
        return 'Waiting for the node pick_place.'
    if state.is_stopped:
        return 'Look at the cause, then press Rearm.'
    return {
        'idle': 'Init gripper once. Drag start and target, then press Plan.',
        'planned': 'The path is shown. Press Run.',
        'planning': 'Every motion is checked before the first one.',
        'running': 'Pause or Stop at any time.',
        'paused': 'Resume, or Stop.',
        'freedrive': 'Move the arm by hand, teach, then press Freedrive again.',
    }.get(state.kind, 'Wait, or Stop.')


def next_button(state: CellState) -> str:
    """Return the button that leads on; empty if there is none."""
    if state.is_stopped:
        return 'Rearm'
    return {'idle': 'Plan', 'planned': 'Run', 'running': 'Pause', 'paused': 'Resume'}.get(
        state.kind, FREEDRIVE if state.kind == 'freedrive' else ''
    )
