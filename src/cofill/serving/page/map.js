// The map: a canvas to wander in by pointer, by fingers, or by the arrow keys from neighbour to neighbour.

import { api, keyOf } from "./api.js";
import { ItemChart } from "./chart_of_items.js";
import { announce, fill, h } from "./dom.js";
import { openItem } from "./route.js";
import { state } from "./state.js";
import { failure, nothing } from "./status.js";
import { count, ratingInWords, titleOf } from "./words.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const STILL = 6; // pixels that a click may slip
const HELP = "Drag to move, scroll or pinch to come nearer, click to open. By keyboard: arrow keys go to the next item in "
  + "that direction, Enter opens it, + and − come nearer and go farther, 0 shows everything.";

/** @returns {HTMLElement} */
export function mapView() {
  const place = h("div", { class: "map-place" });
  const element = h("div", { class: "map-view" }, h("h1", {}, "A map of everything"),
    h("p", { class: "note" }, "What the model finds alike lies close together."), place);
  let asked = new AbortController();
  const load = async () => {
    asked.abort();
    const mine = (asked = new AbortController());
    fill(place, underWay("Fetching the map…"));
    try {
      const { items } = await api.map();
      if (asked !== mine) return;
      if (items.length) wander(place, items, mine.signal);
      else fill(place, nothing("There is nothing to draw."));
    } catch (error) {
      if (asked !== mine) return;
      fill(place, failure(error, load));
    }
  };
  state.on("model", load);
  load();
  return element;
}

/** @param {string} title */
function underWay(title) {
  return h("div", { class: "box empty", role: "status" },
    h("span", { class: "spinner", "aria-hidden": "true" }), h("p", { class: "box-title" }, title));
}

/** @param {HTMLElement} place @param {import("./chart_of_items.js").Place[]} places @param {AbortSignal} signal its end */
function wander(place, places, signal) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", {
    tabindex: 0, role: "application", "aria-label": "Map of items", "aria-describedby": "map-help",
  }));
  const chart = new ItemChart(canvas, places);
  /** @type {import("./chart_of_items.js").Marks} */
  const marks = { rated: state.ratings, recommended: new Set(), current: null, hidden: new Set() };
  let asked = 0;
  const draw = () => {
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(() => chart.draw(marks));
  };
  const refresh = () => {
    marks.rated = state.ratings;
    marks.recommended = new Set(state.recommended.map((item) => keyOf(item.id)));
    draw();
  };
  /** @param {number} factor */
  const zoom = (factor) => {
    chart.zoom(factor);
    draw();
  };
  const whole = () => {
    chart.showAll();
    draw();
  };
  fill(place,
    h("div", { class: "canvas" }, canvas, h("div", { class: "zoom" },
      h("button", { type: "button", "aria-label": "Nearer", title: "Nearer", onclick: () => zoom(1.6) }, "+"),
      h("button", { type: "button", "aria-label": "Farther", title: "Farther", onclick: () => zoom(1 / 1.6) }, "−"),
      h("button", { type: "button", "aria-label": "Show everything", title: "Show everything", onclick: whole }, "⤢"))),
    legend(chart, marks, draw),
    h("p", { class: "muted small", id: "map-help" }, HELP));

  pointers(canvas, chart, marks, draw);
  canvas.addEventListener("keydown", (event) => keys(event, chart, marks, draw));
  canvas.addEventListener("focus", () => {
    if (marks.current === null && canvas.matches(":focus-visible")) go(chart.places[0], chart, marks, draw);
  });
  new ResizeObserver(() => {
    chart.fit();
    draw();
  }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw, { signal });
  for (const name of ["rated", "corrected", "person", "recommended"]) state.on(name, refresh, { signal });
  refresh();
}

/** @param {ItemChart} chart @param {*} marks @param {() => void} draw */
function legend(chart, marks, draw) {
  const toggle = (/** @type {string} */ name) => (/** @type {Event} */ event) => {
    const shown = marks.hidden.delete(name);
    if (!shown) marks.hidden.add(name);
    /** @type {Element} */ (event.currentTarget).setAttribute("aria-pressed", String(shown));
    draw();
  };
  return h("div", { class: "legend" },
    h("span", { class: "key rated-key" }, "rated"), h("span", { class: "key recommended-key" }, "recommended"),
    chart.groups.map(({ group, n, colour }) => h("button", {
      type: "button", class: "key group-key", "aria-pressed": "true", title: `${count(n)} items; click to hide or show`,
      style: { "--key": `var(${colour})` }, onclick: toggle(String(group)),
    }, group ?? "Other")));
}

/** @param {import("./chart_of_items.js").Place} to @param {ItemChart} chart @param {*} marks @param {() => void} draw */
function go(to, chart, marks, draw) {
  marks.current = to;
  chart.reveal(to);
  draw();
  const rating = state.ratingOf(to.id);
  announce([titleOf(to), to.group, rating === null ? null : `you gave it ${ratingInWords(rating)}`,
    marks.recommended.has(keyOf(to.id)) ? "recommended" : null].filter(Boolean).join(", "));
}

/** @param {KeyboardEvent} event @param {ItemChart} chart @param {*} marks @param {() => void} draw */
function keys(event, chart, marks, draw) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const arrow = ARROWS[event.key];
  const here = marks.current ?? chart.places[0];
  if (arrow) {
    const next = marks.current ? chart.next(here, arrow[0], arrow[1], marks.hidden) : here;
    if (next) go(next, chart, marks, draw);
    else announce("Nothing farther that way.");
  } else if (event.key === "Enter" || event.key === " ") {
    if (marks.current) openItem(marks.current.id);
  } else if (event.key === "+" || event.key === "=" || event.key === "-") {
    const [x, y] = chart.onScreen(here);
    chart.zoom(event.key === "-" ? 1 / 1.6 : 1.6, x, y);
    draw();
  } else if (event.key === "0") {
    chart.showAll();
    draw();
  } else {
    return;
  }
  event.preventDefault();
}

/**
 * One pointer moves, two pinch, a still one clicks.
 * @param {HTMLCanvasElement} canvas @param {ItemChart} chart @param {*} marks @param {() => void} draw
 */
function pointers(canvas, chart, marks, draw) {
  /** @type {Map<number, {x: number, y: number}>} */
  const down = new Map();
  let slipped = 0;
  /** @param {PointerEvent|WheelEvent} event */
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const spread = () => {
    const [a, b] = [...down.values()];
    return { apart: Math.hypot(a.x - b.x, a.y - b.y), x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    if (down.size === 0) slipped = 0;
    down.set(event.pointerId, at(event));
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = at(event);
    const before = down.get(event.pointerId);
    if (!before) {
      const found = chart.under(now.x, now.y, 6, marks.hidden);
      canvas.classList.toggle("over", found !== null);
      if (found !== marks.current && (found || document.activeElement !== canvas)) {
        marks.current = found;
        draw();
      }
      return;
    }
    const old = down.size === 2 ? spread() : null;
    slipped += Math.hypot(now.x - before.x, now.y - before.y);
    down.set(event.pointerId, now);
    if (old) {
      const { apart, x, y } = spread();
      chart.move(x - old.x, y - old.y);
      chart.zoom(apart / (old.apart || 1), x, y);
    } else {
      chart.move(now.x - before.x, now.y - before.y);
    }
    draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!down.delete(event.pointerId) || slipped > STILL) return;
    const { x, y } = at(event);
    const found = chart.under(x, y, event.pointerType === "touch" ? 16 : 6, marks.hidden);
    if (found) {
      marks.current = found;
      draw();
      openItem(found.id);
    }
  });
  canvas.addEventListener("pointercancel", (event) => down.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => {
    if (down.size || document.activeElement === canvas) return;
    marks.current = null;
    draw();
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { x, y } = at(event);
    chart.zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0016)), x, y);
    draw();
  }, { passive: false });
}
