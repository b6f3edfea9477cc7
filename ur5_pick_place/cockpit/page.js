// SPDX-License-Identifier: Apache-2.0
// Run in every page with the text of page.css.
(css) => {
  if (window.cockpitKeys) return;
  window.cockpitKeys = true;
  document.title = 'UR cockpit';
  const style = document.createElement('style');
  style.textContent = css;
  document.head.appendChild(style);
  const keys = {  // key -> the jog button that it holds; Escape clicks Stop
    ArrowUp: 'X +', ArrowDown: 'X −', ArrowLeft: 'Y +', ArrowRight: 'Y −',
    PageUp: 'Z +', PageDown: 'Z −',
  };
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
    // Without a connection viser dims its panel, and drops each click without a word.
    const isLost = Boolean(stop) && getComputedStyle(stop).pointerEvents === 'none';
    spare.textContent = isLost ? 'No connection: Stop does nothing here' : 'Stop';
    spare.disabled = isLost;
    const isSeen = !isLost && box.height > 0 && box.top >= 0 && box.bottom <= window.innerHeight;
    if (!isSeen && !spare.isConnected) document.body.appendChild(spare);
    if (isSeen && spare.isConnected) spare.remove();
  }, 250);
}
