// Numbers, titles and attributes as people read them.

import { keyOf } from "./api.js";
import { h } from "./dom.js";
import { state } from "./state.js";

/** @param {number} digits @param {Intl.NumberFormatOptions} [more] @returns {(value: number) => string} */
function format(digits, more = {}) {
  const digitsShown = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const how = new Intl.NumberFormat("en", { ...digitsShown, signDisplay: "negative", ...more });
  return (value) => how.format(value).replace("-", "−");
}

export const count = format(0);
export const oneDigit = format(1);
export const twoDigits = format(2);
export const signed = format(2, { signDisplay: "exceptZero" });
export const signedShort = format(1, { signDisplay: "exceptZero" });
export const share = format(1, { style: "percent" });
export const signedShare = format(1, { style: "percent", signDisplay: "exceptZero" });

/**
 * Numbers rounded to a unit so that they add up to the rounded total (largest remainders); without that, what is shown
 * would not be what it is made of. @param {number[]} parts @param {number} total @param {number} unit
 * @returns {{parts: number[], total: number}}
 */
export function addingUp(parts, total, unit) {
  const wanted = Math.round(total / unit);
  const whole = parts.map((part) => Math.floor(part / unit));
  const byRest = parts.map((_, i) => i).sort((a, b) => (parts[b] / unit - whole[b]) - (parts[a] / unit - whole[a]));
  let missing = wanted - whole.reduce((sum, one) => sum + one, 0);
  for (let turn = 0; missing !== 0 && byRest.length > 0; turn += 1) {
    const step = Math.sign(missing);
    whole[byRest[step > 0 ? turn % byRest.length : byRest.length - 1 - (turn % byRest.length)]] += step;
    missing -= step;
  }
  return { parts: whole.map((one) => one * unit), total: wanted * unit };
}

/** By whether people rate here, or choose. @param {string} rated @param {string} chosen */
export const worded = (rated, chosen) => (state.model.rated ? rated : chosen);

/** What everybody says of an item. @param {{raters: number, mean: number|null}} item */
export function everybodyInWords({ raters, mean }) {
  if (raters === 0) return worded("No ratings yet", "New");
  if (!state.model.rated) return `Chosen by ${counted(raters, "person", "people")}`;
  return mean === null ? counted(raters, "rating") : `${oneDigit(mean)} from ${counted(raters, "rating")}`;
}

/** @param {number} n @param {string} one @param {string} [many] */
export function counted(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** Stars where the scale is one of stars, else the bare number. @param {number} value */
export function ratingInWords(value) {
  const number = String(Math.round(value * 100) / 100);
  return starred() ? `${number} ${value === 1 ? "star" : "stars"}` : number;
}

/** Whether ratings look like stars: few, whole or half, from above nothing. */
export function starred() {
  const { low, high, step } = state.model.scale;
  return low > 0 && high <= 10 && Number.isInteger(high) && (step === null || step === 0.5 || step === 1);
}

/** Columns of yes and no, such as a column for each genre; the most frequent first. */
export function flagColumns() {
  /** @param {*} column */
  const yes = (column) => column.values.find((one) => one.value === true)?.count ?? 0;
  return state.model.item_columns.filter((column) => column.kind === "flag" && yes(column) > 0).sort((a, b) => yes(b) - yes(a));
}

/** What an item is, of that; what is rare says most. @param {import("./api.js").Item} item @returns {string[]} */
export function flagsOf(item) {
  return flagColumns().filter((column) => item.attributes?.[column.name] === true).map((column) => column.name).reverse();
}

const ARTICLES = "The|A|An|Le|La|Les|L'|Un|Une|Der|Die|Das|Ein|Eine|Il|Lo|Gli|Una|El|Los|Las|Den|Det|De|Het|Een";
const ARTICLE_LAST = new RegExp(`^(.+), (${ARTICLES})$`, "s");

/** "Bells, The" as people say it; catalogues write the article last so that titles sort. @param {string} text */
function articleFirst(text) {
  const found = ARTICLE_LAST.exec(text);
  if (!found) return text;
  return found[2].endsWith("'") ? `${found[2]}${found[1]}` : `${found[2]} ${found[1]}`;
}

/** @param {{id: import("./api.js").Id, title?: string|null}} item */
export function titleOf(item) {
  if (!item.title) return `Item ${keyOf(item.id)}`;
  // Other titles and the year follow in brackets: "Postino, Il (Postman, The) (1994)".
  const parts = /^([^(]*\S) (\(.*\))$/s.exec(item.title);
  if (!parts) return articleFirst(item.title);
  return `${articleFirst(parts[1])} ${parts[2].replace(/\(([^()]*)\)/g, (_, inner) => `(${articleFirst(inner)})`)}`;
}

/** A title and the year in brackets at its end. @param {{id: import("./api.js").Id, title?: string|null}} item */
export function titleAndYear(item) {
  const text = titleOf(item);
  const year = /^(.+) \((\d{4})\)$/s.exec(text);
  return year ? { title: year[1], year: year[2] } : { title: text, year: null };
}

/** A title whose year steps back a little. @param {{id: import("./api.js").Id, title?: string|null}} item */
export function titleParts(item) {
  const { title, year } = titleAndYear(item);
  return year === null ? [title] : [title, " ", h("span", { class: "year" }, `(${year})`)];
}

/** One line about an item: what it is, without what its title says already. @param {import("./api.js").Item} item */
export function attributesLine(item) {
  const attributes = item.attributes ?? {};
  const parts = [];
  for (const { name, kind } of state.model.item_columns) {
    const value = attributes[name];
    if (value === undefined || value === null || ["text", "flag", "image"].includes(kind) || parts.length >= 4) continue;
    if (kind === "date" && /\(\d{4}\)$/.test(titleOf(item))) continue; // the year is there
    const short = kind === "date" ? String(value).slice(0, 4) : String(value);
    if (kind === "several") {
      if (!parts.some(Array.isArray)) parts.push(value.slice(0, 3)); // of genres and tags, the genres
    } else if (!titleOf(item).includes(short)) {
      parts.push(kind === "number" && !/year/i.test(name) ? `${columnInWords(name)} ${short}` : short);
    }
  }
  return [...parts.flat(), ...flagsOf(item).slice(0, 3)].join(" · ");
}

/** @param {string} name */
export function columnInWords(name) {
  const words = name.replaceAll("_", " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** @param {*} value of an attribute, a setting or a measure */
export function valueInWords(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (Array.isArray(value)) return value.length ? value.map(valueInWords).join(", ") : "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "object") {
    return Object.entries(value).map(([name, one]) => `${name.replaceAll("_", " ")} ${valueInWords(one)}`).join(", ");
  }
  if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(4)));
  return String(value);
}
