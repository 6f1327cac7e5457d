// A list whose rows glide to their new places, so that the eye can follow what moved.

import { calm } from "./dom.js";

const MOVE = { duration: 480, easing: "cubic-bezier(.2, .8, .2, 1)" };

/**
 * Do something to the children of a list; those that stay glide, new ones fade in.
 * @param {Element} list @param {() => void} change
 */
export function glide(list, change) {
  const focused = document.activeElement;
  if (calm()) {
    change();
  } else {
    const before = new Map([...list.children].map((child) => [child, child.getBoundingClientRect()]));
    change();
    for (const child of list.children) {
      const old = before.get(child);
      if (old) follow(child, old);
      else child.animate([{ opacity: 0, transform: "translateY(12px)" }, { opacity: 1, transform: "none" }], MOVE);
    }
  }
  // An element that is put elsewhere loses the focus; it did not mean to.
  if (focused instanceof HTMLElement && focused !== document.activeElement && list.contains(focused)) {
    focused.focus({ preventScroll: true });
  }
}

/** @param {Element} child @param {DOMRect} old where it was (in the middle of a glide, where it had got to) */
function follow(child, old) {
  const now = child.getBoundingClientRect();
  const [x, y] = [old.left - now.left, old.top - now.top];
  if (Math.abs(x) < 1 && Math.abs(y) < 1) return;
  child.animate([{ transform: `translate(${x}px, ${y}px)` }, { transform: "none" }], MOVE);
}

/**
 * Show a number on its way to another. @param {number} from @param {number} to @param {(value: number) => void} show
 */
export function count(from, to, show) {
  if (calm() || document.hidden) {
    show(to);
    return;
  }
  const start = performance.now();
  /** @param {number} time */
  const step = (time) => {
    const done = Math.min(1, Math.max(0, (time - start) / MOVE.duration));
    show(done === 1 ? to : from + (to - from) * (1 - (1 - done) ** 3));
    if (done < 1) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}
