// The cover of an item: its picture where it has one, else one that is drawn here, always the same for the same title.
//
// A drawn cover has one of eight hues and one of two motifs, and its title set on it where there is room to read it.

import { keyOf } from "./api.js";
import { h, svg } from "./dom.js";
import { state } from "./state.js";
import { mayShow } from "./settings.js";
import { titleAndYear } from "./words.js";

/**
 * @typedef {() => number} Dice  from 0 to 1
 * @typedef {{ground: string, far: string, near: string, spark: string, ink: string}} Tones
 * @typedef {(dice: Dice, tones: Tones, height: number) => SVGElement[]} Motif
 */

const WIDE = 200;
const HUES = [256, 52, 150, 24, 305, 92, 205, 350];
const LETTER = 0.56; // width of a letter, in its height
const LINE = 1.1; // height of a line, in that of its letters
const LARGEST = 31;
const MOST_TITLE = 0.62; // of a cover

/** @param {import("./api.js").Item} item @param {{titled?: boolean}} [how] @returns {HTMLElement} */
export function cover(item, { titled = false } = {}) {
  const drawn = () => drawing(item, titled);
  const element = h("span", { class: "cover", "aria-hidden": "true" });
  const column = state.model.item_columns.find((one) => one.kind === "image");
  const address = column && item.attributes?.[column.name];
  if (typeof address === "string" && mayShow(address)) {
    element.append(h("img", { src: address, alt: "", loading: "lazy", onerror: () => element.replaceChildren(drawn()) }));
  } else {
    element.append(drawn());
  }
  return element;
}

/** @param {import("./api.js").Item} item @param {boolean} titled */
function drawing(item, titled) {
  const height = WIDE * 1.5;
  const dice = thrown(item.title || keyOf(item.id));
  const tones = toned(dice);
  const motif = MOTIFS[Math.floor(dice() * MOTIFS.length)];
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${height}`, preserveAspectRatio: "xMidYMid slice" },
    rect(0, 0, WIDE, height, tones.ground));
  if (!titled) {
    picture.append(...motif(dice, tones, height));
    return picture;
  }
  const { title, year } = titleAndYear(item);
  const { lines, size } = set(title, height * MOST_TITLE - (year ? 46 : 30));
  const room = lines.length * size * LINE + (year ? 46 : 30);
  const above = dice() < 0.5; // the title, above or below the picture
  const art = svg("svg", { x: 0, y: above ? room : 0, width: WIDE, height: height - room });
  art.append(...motif(dice, tones, height - room));
  const first = (above ? 0 : height - room) + (year && above ? 36 : 18) + size * 0.62;
  picture.append(art,
    ...lines.map((line, i) => svg("text", {
      x: 16, y: first + i * size * LINE, "font-size": size, class: "cover-title", fill: tones.ink,
    }, line)),
    ...(year ? [svg("text", {
      x: 16, y: above ? 26 : height - 14, "font-size": 11, class: "cover-year", fill: tones.spark,
    }, year)] : []));
  return picture;
}

/** A title in lines, broken so that its letters are as large as can be. @param {string} title @param {number} tall */
function set(title, tall) {
  const words = title.replace(/ \([^()]*\)/g, "").split(/\s+/).map((word) => (word.length > 18 ? `${word.slice(0, 17)}…` : word));
  let best = { lines: words, size: 0 };
  for (let width = 30; width >= Math.max(...words.map((word) => word.length)); width -= 1) {
    const lines = filled(words, width);
    const longest = Math.max(...lines.map((line) => line.length));
    const size = Math.min(LARGEST, (WIDE - 32) / (LETTER * longest), tall / (LINE * lines.length));
    if (size > best.size * 1.2) best = { lines, size }; // a line more has to be worth it
  }
  return best;
}

/** @param {string[]} words @param {number} width letters in a line */
function filled(words, width) {
  /** @type {string[]} */
  const lines = [];
  for (const word of words) {
    const last = lines.length - 1;
    if (last >= 0 && `${lines[last]} ${word}`.length <= width) lines[last] += ` ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** The same numbers for the same text (FNV-1a, then mulberry32). @param {string} text @returns {Dice} */
function thrown(text) {
  let seed = 2166136261;
  for (const letter of text) seed = Math.imul(seed ^ (letter.codePointAt(0) ?? 0), 16777619);
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Tones of one hue and a spark of another: by night, by day, or in full colour. @param {Dice} dice */
function toned(dice) {
  const hue = HUES[Math.floor(dice() * HUES.length)] + (dice() - 0.5) * 22;
  const other = hue + [150, 180, 60, -60][Math.floor(dice() * 4)];
  /** @param {number} light @param {number} colour @param {number} angle */
  const tone = (light, colour, angle) => `oklch(${light} ${colour.toFixed(3)} ${((angle + 360) % 360).toFixed(0)})`;
  const kind = dice();
  if (kind < 0.45) {
    return {
      ground: tone(0.27, 0.055, hue), far: tone(0.42, 0.09, hue), near: tone(0.64, 0.13, hue),
      spark: tone(0.84, 0.11, other), ink: "oklch(.97 .012 90)",
    };
  }
  if (kind < 0.75) {
    return {
      ground: tone(0.93, 0.03, hue), far: tone(0.8, 0.075, hue), near: tone(0.52, 0.13, hue),
      spark: tone(0.5, 0.13, other), ink: tone(0.27, 0.06, hue),
    };
  }
  return {
    ground: tone(0.45, 0.12, hue), far: tone(0.57, 0.13, hue), near: tone(0.87, 0.06, hue),
    spark: tone(0.88, 0.1, other), ink: "oklch(.985 .01 90)",
  };
}

/** @param {number} x @param {number} y @param {number} width @param {number} height @param {string} fill */
function rect(x, y, width, height, fill) {
  return svg("rect", { x, y, width, height, fill });
}

/** @param {number} cx @param {number} cy @param {number} r @param {string} fill */
function disc(cx, cy, r, fill) {
  return svg("circle", { cx, cy, r, fill });
}

/** @param {string} d @param {string} fill */
function path(d, fill) {
  return svg("path", { d, fill });
}

/** @type {Motif} slanting bands */
function bands(dice, { far, near, spark }, height) {
  const slope = (dice() < 0.5 ? 1 : -1) * (40 + dice() * 90);
  const shapes = [];
  let y = -150;
  for (let i = 0; y < height + 150; i += 1) {
    const thick = 12 + dice() * 46;
    const fill = i % 5 === 3 ? spark : i % 2 ? near : far;
    shapes.push(path(`M0 ${y}L${WIDE} ${y + slope}v${thick}L0 ${y + thick}z`, fill));
    y += thick + 8 + dice() * 30;
  }
  return shapes;
}

/** @type {Motif} hills behind hills */
function hills(dice, { far, near, spark, ground }, height) {
  const moon = disc(40 + dice() * 120, height * (0.16 + dice() * 0.14), 18 + dice() * 16, spark);
  const layers = [far, near, ground, far].map((fill, i) => {
    const y = height * (0.36 + i * 0.17);
    const [a, b] = [30 + dice() * 60, 20 + dice() * 50];
    return path(`M0 ${y}C50 ${y - a} 80 ${y + b} 120 ${y - b / 2}S180 ${y - a} ${WIDE} ${y}V${height}H0z`, fill);
  });
  return [moon, ...layers];
}

/** @type {Motif[]} */
const MOTIFS = [bands, hills];
