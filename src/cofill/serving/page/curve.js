// A line over epochs, drawn as SVG: labelled axes, the best point marked, the numbers also as a table.

import { freshId, h, svg } from "./dom.js";

const WIDTH = 640;
const HEIGHT = 260;
const LEFT = 56;
const RIGHT = 16;
const TOP = 16;
const BOTTOM = 42;

/**
 * @param {{title: string, axis: string, points: {x: number, y: number}[], markLeast?: boolean}} what at least two points
 * @returns {HTMLElement}
 */
export function curve({ title, axis, points, markLeast = false }) {
  const xs = points.map((point) => point.x);
  const ys = points.map((point) => point.y);
  const across = scale(Math.min(...xs), Math.max(...xs), LEFT, WIDTH - RIGHT);
  const ticks = niceTicks(Math.min(...ys), Math.max(...ys));
  const upward = scale(ticks[0], Math.max(...ticks), HEIGHT - BOTTOM, TOP);
  const least = points.reduce((best, point) => (point.y < best.y ? point : best));
  const name = freshId("curve");
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(ticks[1] - ticks[0] || 1))));
  /** @param {number} value */
  const written = (value) => value.toFixed(digits + 1);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-labelledby": name, class: "curve" },
    svg("title", { id: name }, `${title}: from ${written(ys[0])} to ${written(Number(ys.at(-1)))} in ${points.length} epochs`),
    ticks.map((tick) => [
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: upward(tick), y2: upward(tick) }),
      svg("text", { class: "tick", x: LEFT - 8, y: upward(tick) + 4, "text-anchor": "end" }, tick.toFixed(digits)),
    ]),
    epochTicks(xs).map((x) => svg("text", { class: "tick", x: across(x), y: HEIGHT - BOTTOM + 20, "text-anchor": "middle" }, x)),
    svg("text", { class: "tick", x: WIDTH - RIGHT, y: HEIGHT - 6, "text-anchor": "end" }, axis),
    svg("polyline", {
      class: "path",
      points: points.map((point) => `${across(point.x).toFixed(1)},${upward(point.y).toFixed(1)}`).join(" "),
    }),
    markLeast ? [
      svg("circle", { class: "best", cx: across(least.x), cy: upward(least.y), r: 5 }),
      svg("text", {
        class: "best-label", x: across(least.x), y: upward(least.y) - 12,
        "text-anchor": least.x > (xs[0] + Math.max(...xs)) / 2 ? "end" : "start",
      }, `best: ${written(least.y)} after ${least.x}`),
    ] : null);
  return h("figure", {}, h("figcaption", {}, title), picture);
}

/** @param {number} low @param {number} high @param {number} from @param {number} to @returns {(value: number) => number} */
function scale(low, high, from, to) {
  return (value) => from + ((value - low) / (high - low || 1)) * (to - from);
}

/** Round numbers around all values. @param {number} low @param {number} high */
export function niceTicks(low, high) {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough;
  const first = Math.floor(low / step);
  const last = Math.max(first + 1, Math.ceil(high / step));
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

/** @param {number[]} xs */
function epochTicks(xs) {
  const [first, second] = niceTicks(xs[0], Number(xs.at(-1)));
  const whole = Math.max(1, Math.round(second - first));
  return xs.filter((x) => x === xs[0] || x % whole === 0).filter((x, i, all) => i === 0 || x - all[i - 1] >= whole / 2);
}
