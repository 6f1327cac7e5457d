// Items drawn as points: where they are on the screen, how they look, which is under the pointer or next in a direction.

import { keyOf } from "./api.js";
import { titleOf } from "./words.js";

/**
 * @typedef {{id: import("./api.js").Id, title: string|null, x: number, y: number, ratings: number, group: *}} Place
 * @typedef {{rated: Map<string, *>, recommended: Set<string>, current: Place|null, hidden: Set<string>}} Marks
 */

const MARGIN = 46;
const CLOSEST = 40; // times the whole
const MOST_PULLED = 2;

export class ItemChart {
  /** @param {HTMLCanvasElement} canvas @param {Place[]} places */
  constructor(canvas, places) {
    this.canvas = canvas;
    this.pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.places = [...places].sort((a, b) => b.ratings - a.ratings);
    this.most = Math.max(1, ...places.map((place) => place.ratings));
    this.groups = counted(places);
    this.width = this.height = 0;
    this.x = this.y = 0; // what lies in the middle
    this.scale = this.whole = 1; // pixels a unit
    this.wide = 1; // how far the sides are pulled apart to fill the room
  }

  /** Take the size the page gives. */
  fit() {
    const { width, height } = this.canvas.getBoundingClientRect();
    const ratio = devicePixelRatio || 1;
    const first = this.width === 0;
    [this.width, this.height] = [width, height];
    [this.canvas.width, this.canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (first && width > 0) this.showAll();
  }

  showAll() {
    const [xs, ys] = [this.places.map((place) => place.x), this.places.map((place) => place.y)];
    const [left, right] = [Math.min(...xs), Math.max(...xs)];
    const [low, high] = [Math.min(...ys), Math.max(...ys)];
    const room = (/** @type {number} */ size) => Math.max(80, size - 2 * MARGIN);
    const [across, upward] = [room(this.width) / (right - left || 1), room(this.height) / (high - low || 1)];
    this.wide = Math.min(MOST_PULLED, Math.max(1 / MOST_PULLED, across / upward));
    this.scale = Math.min(across / this.wide, upward);
    [this.x, this.y] = [((left + right) / 2) * this.wide, (low + high) / 2];
    this.whole = this.scale;
  }

  /** @param {{x: number, y: number}} place @returns {[number, number]} on the canvas */
  onScreen(place) {
    return [(place.x * this.wide - this.x) * this.scale + this.width / 2, this.height / 2 - (place.y - this.y) * this.scale];
  }

  /** @param {number} dx @param {number} dy pixels */
  move(dx, dy) {
    this.x -= dx / this.scale;
    this.y += dy / this.scale;
  }

  /**
   * Nearer (or farther) around a point that stays where it is.
   * @param {number} factor @param {number} [px] @param {number} [py]
   */
  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const next = Math.min(this.whole * CLOSEST, Math.max(this.whole * 0.6, this.scale * factor));
    const [dx, dy] = [px - this.width / 2, this.height / 2 - py];
    this.x += dx / this.scale - dx / next;
    this.y += dy / this.scale - dy / next;
    this.scale = next;
  }

  /** Move just so far that a place can be seen. @param {Place} place */
  reveal(place) {
    const [px, py] = this.onScreen(place);
    const edge = Math.min(80, this.width / 4);
    /** @param {number} at @param {number} size */
    const over = (at, size) => (at < edge ? edge - at : at > size - edge ? size - edge - at : 0);
    this.move(over(px, this.width), over(py, this.height));
  }

  /** @param {Place} place */
  radius(place) {
    const near = (this.scale / this.whole) ** 0.35;
    return (2 + 6 * Math.sqrt(place.ratings / this.most)) * near * (this.width < 500 ? 0.75 : 1);
  }

  /** @param {number} px @param {number} py @param {number} reach pixels @param {Set<string>} hidden groups */
  under(px, py, reach, hidden) {
    let best = null;
    let least = Infinity;
    for (const place of this.places) {
      if (hidden.has(String(place.group))) continue;
      const [x, y] = this.onScreen(place);
      const away = Math.hypot(x - px, y - py) - this.radius(place);
      if (away < least) [best, least] = [place, away];
    }
    return least <= reach ? best : null;
  }

  /**
   * The neighbour to the left, right, above or below.
   * @param {Place} from @param {number} dx @param {number} dy @param {Set<string>} hidden
   */
  next(from, dx, dy, hidden) {
    let best = null;
    let least = Infinity;
    for (const place of this.places) {
      if (place === from || hidden.has(String(place.group))) continue;
      const [x, y] = [(place.x - from.x) * this.wide, place.y - from.y];
      const along = x * dx + y * dy;
      const aside = Math.abs(x * dy - y * dx);
      if (along > 0 && aside <= along && along + aside < least) [best, least] = [place, along + aside];
    }
    return best;
  }

  /** @param {Marks} marks */
  draw(marks) {
    const { pen } = this;
    const style = getComputedStyle(this.canvas);
    const color = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
    const look = {
      ...Object.fromEntries(["ink", "muted", "ground", "gold", "accent"].map((name) => [name, color(`--${name}`)])),
      other: color("--group-other"),
      groups: new Map(this.groups.map(({ group, colour }) => [group, color(colour)])),
      font: style.fontFamily,
    };
    pen.clearRect(0, 0, this.width, this.height);
    for (const place of [...this.places].reverse()) {
      const [x, y] = this.onScreen(place);
      if (x < -20 || y < -20 || x > this.width + 20 || y > this.height + 20) continue;
      this.#point(place, x, y, marks, look);
    }
    this.#titles(marks, look);
  }

  /** @param {Place} place @param {number} x @param {number} y @param {Marks} marks @param {*} look */
  #point(place, x, y, marks, look) {
    const { pen } = this;
    const key = keyOf(place.id);
    const radius = this.radius(place);
    pen.globalAlpha = marks.hidden.has(String(place.group)) ? 0.06 : place.group === null ? 0.6 : 0.85;
    pen.fillStyle = look.groups.get(place.group) ?? look.other;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 7);
    pen.fill();
    pen.globalAlpha = 1;
    if (marks.recommended.has(key)) ring(pen, x, y, radius + 3, 2, look.accent);
    if (marks.rated.has(key)) star(pen, x, y, Math.max(8, radius + 3), look.gold, look.ground);
    if (marks.current === place) ring(pen, x, y, radius + 5, 3, look.ink);
  }

  /**
   * As many titles as fit, none over another: first of what is marked, then of what is known best. There are more of
   * them as one comes nearer. @param {Marks} marks @param {*} look
   */
  #titles(marks, look) {
    const { pen } = this;
    const near = this.scale / this.whole;
    const some = Math.round((this.width < 500 ? 14 : 40) * near ** 1.6);
    const seen = this.places.filter((place) => {
      const [x, y] = this.onScreen(place);
      return x > 0 && y > 0 && x < this.width && y < this.height && !marks.hidden.has(String(place.group));
    });
    const isMarked = (/** @type {Place} */ place) => marks.rated.has(keyOf(place.id)) || marks.recommended.has(keyOf(place.id));
    /** @type {number[][]} */
    const taken = [];
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    let written = 0;
    for (const place of new Set([marks.current, ...seen.filter(isMarked), ...seen])) {
      if (!place) continue;
      if (written >= some && !isMarked(place) && place !== marks.current) break;
      const chosen = place === marks.current;
      pen.font = `${chosen ? "600 14px" : isMarked(place) ? "600 12px" : "12px"} ${look.font}`;
      const [x, y] = this.onScreen(place);
      const text = shortened(titleOf(place).replace(/ \(\d{4}\)$/, ""));
      const width = pen.measureText(text).width;
      const gap = this.radius(place) + (chosen ? 9 : 5);
      const sides = [x + gap, x - gap - width].filter((left) => left > 4 && left + width < this.width - 4);
      const left = sides.find((at) => !taken.some((other) => overlap(boxAt(at, y, width), other))) ?? (chosen ? sides[0] : undefined);
      if (left === undefined) continue;
      written += 1;
      taken.push(boxAt(left, y, width));
      pen.textAlign = "left";
      pen.lineWidth = 4;
      pen.strokeStyle = look.ground;
      pen.strokeText(text, left, y);
      pen.fillStyle = chosen || isMarked(place) ? look.ink : look.muted;
      pen.fillText(text, left, y);
    }
  }
}

/** @param {number} left @param {number} y @param {number} width of a title */
const boxAt = (left, y, width) => [left - 4, y - 9, left + width + 4, y + 9];

/** @param {number[]} a @param {number[]} b left, top, right, bottom */
function overlap(a, b) {
  return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}

/** @param {string} text */
function shortened(text) {
  return text.length > 30 ? `${text.slice(0, 28).trimEnd()}…` : text;
}

/**
 * @param {CanvasRenderingContext2D} pen @param {number} x @param {number} y @param {number} radius
 * @param {number} width @param {string} color
 */
function ring(pen, x, y, radius, width, color) {
  pen.lineWidth = width;
  pen.strokeStyle = color;
  pen.beginPath();
  pen.arc(x, y, radius, 0, 7);
  pen.stroke();
}

/**
 * @param {CanvasRenderingContext2D} pen @param {number} x @param {number} y @param {number} radius
 * @param {string} color @param {string} edge
 */
function star(pen, x, y, radius, color, edge) {
  pen.beginPath();
  for (let i = 0; i < 10; i += 1) {
    const angle = (i * Math.PI) / 5 - Math.PI / 2;
    const reach = i % 2 ? radius * 0.45 : radius;
    pen.lineTo(x + Math.cos(angle) * reach, y + Math.sin(angle) * reach);
  }
  pen.closePath();
  pen.lineWidth = 3;
  pen.strokeStyle = edge;
  pen.stroke();
  pen.fillStyle = color;
  pen.fill();
}

/** How many items each group has, and its colour; the largest first, the rest last. @param {Place[]} places */
function counted(places) {
  const counts = new Map();
  for (const { group } of places) counts.set(group, (counts.get(group) ?? 0) + 1);
  const rest = counts.get(null) ?? 0;
  counts.delete(null);
  const groups = [...counts].sort((a, b) => b[1] - a[1]).map(([group, n], i) => ({ group, n, colour: `--group-${i}` }));
  return groups.length && rest ? [...groups, { group: null, n: rest, colour: "--group-other" }] : groups;
}
