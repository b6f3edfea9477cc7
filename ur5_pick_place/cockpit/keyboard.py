# SPDX-License-Identifier: Apache-2.0
"""Keyboard shortcuts of the page, and the layout of its buttons."""

import json

import viser
from viser._messages import RunJavascriptMessage

KEYS = {
    'ArrowUp': 'X +',
    'ArrowDown': 'X \N{MINUS SIGN}',
    'ArrowLeft': 'Y +',
    'ArrowRight': 'Y \N{MINUS SIGN}',
    'PageUp': 'Z +',
    'PageDown': 'Z \N{MINUS SIGN}',
}
"""Key -> the jog button that it holds. Escape clicks Stop."""

_SCRIPT = """
if (!window.cockpitKeys) {
  window.cockpitKeys = true;
  document.title = 'UR cockpit';
  const style = document.createElement('style');
  style.textContent = %(style)s;
  document.head.appendChild(style);
  const keys = %(keys)s;
  const held = new Map();
  const spare = document.createElement('button');
  spare.textContent = 'Stop';
  spare.className = 'cockpit-spare-stop';
  const find = (label) => [...document.querySelectorAll('button')].find(
    (b) => b !== spare && b.textContent.trim() === label);
  const send = (button, type) => button.dispatchEvent(new PointerEvent(
    type, {bubbles: true, button: 0, pointerId: 1, isPrimary: true}));
  // What has keys of its own: fields, the sliders, the tabs, an open list.
  const others = 'input,textarea,select,[contenteditable],[role=slider],[role=tab],'
    + '[role=tablist],[role=listbox],[role=option]';
  const isTyping = (e) => (e.target.closest && e.target.closest(others))
    || e.ctrlKey || e.altKey || e.metaKey;
  const release = (key) => {
    const button = held.get(key);
    held.delete(key);
    if (button) send(button, 'pointerup');
  };
  window.addEventListener('keydown', (e) => {
    if (e.key === 'Escape') stopNow();
    if (!(e.key in keys) || isTyping(e)) return;
    const button = find(keys[e.key]);
    if (!button || button.offsetParent === null) return;  // the Jog tab is not shown
    e.preventDefault();
    e.stopPropagation();
    if (e.repeat || held.has(e.key)) return;
    if (!button.disabled) { held.set(e.key, button); send(button, 'pointerdown'); }
  }, true);
  // A tab or slider that was clicked would keep the focus, and take the arrow keys.
  window.addEventListener('pointerup', () => setTimeout(() => {
    const focused = document.activeElement;
    if (focused && focused.matches('[role=tab],[role=slider]')) focused.blur();
  }), true);
  window.addEventListener('keyup', (e) => release(e.key), true);
  window.addEventListener('blur', () => [...held.keys()].forEach(release));
  document.addEventListener('visibilitychange', () => [...held.keys()].forEach(release));
  // Stop is always there: where the panel is folded, a spare one unfolds it and clicks it.
  const stopNow = () => {
    const stop = find('Stop');
    if (stop) { stop.click(); return; }
    const fold = document.querySelector('[aria-label="Expand panel"]');
    if (fold) { fold.click(); setTimeout(stopNow, 20); }
  };
  spare.addEventListener('click', stopNow);
  // Stop on pointerdown: the click follows a frame later, half a second in a browser without GPU.
  // That click is ignored, as somebody may have rearmed meanwhile.
  let isPressed = false;
  const isStop = (e) => {
    const button = e.target.closest && e.target.closest('button');
    return button && (button === spare || button === find('Stop'));
  };
  window.addEventListener('pointerdown', (e) => {
    isPressed = Boolean(isStop(e));
    if (isPressed) stopNow();
  }, true);
  window.addEventListener('click', (e) => {
    if (!isPressed || !e.isTrusted || !e.detail || !isStop(e)) return;
    isPressed = false;
    e.stopPropagation();
    e.preventDefault();
  }, true);
  setInterval(() => {
    const stop = find('Stop');
    const box = stop ? stop.getBoundingClientRect() : {height: 0};
    const isSeen = box.height > 0 && box.top >= 0 && box.bottom <= window.innerHeight;
    if (!isSeen && !spare.isConnected) document.body.appendChild(spare);
    if (isSeen && spare.isConnected) spare.remove();
  }, 250);
}
"""
# viser puts each button in a row of its own: thirty of them would not fit a screen. Stop, the only
# one with an icon, has the whole width and stays in sight. On a phone the
# sheet is as wide as the screen.
_STYLE = """
div:has(> button.mantine-Button-root) {
  display: inline-block; vertical-align: top; width: calc(50% - 1.2em);
  margin-inline: 0.5em !important; }
div:has(> button.mantine-Button-root svg) {
  display: block; width: auto; position: sticky; top: 0; z-index: 5; padding-top: 0.3em; }
button.mantine-Button-root:has(svg) {
  height: 3em !important; font-size: 1.15em; font-weight: 800; background: #d90429 !important; }
button.cockpit-spare-stop {
  position: fixed; left: 0.6em; bottom: 0.6em; z-index: 1000; padding: 0.8em 2.2em; border: 0;
  border-radius: 6px; background: #d90429; color: #fff; font: 800 18px system-ui, sans-serif; }
@media (max-width: 36em) { div[style*="width: 20em"] { width: 100vw !important; } }
"""


def add_keys(server: viser.ViserServer) -> None:
    """Add the keys, and the style that puts buttons side by side, to every page."""
    source = _SCRIPT % {'keys': json.dumps(KEYS), 'style': json.dumps(_STYLE)}
    server.gui._websock_interface.queue_message(RunJavascriptMessage(source=source))
