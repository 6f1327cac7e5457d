// Numbers, titles and attributes as people read them.

import { state } from "./state.js";
import { h } from "./dom.js";
import { keyOf } from "./api.js";

/** @param {number} digits @param {Intl.NumberFormatOptions} [more] @returns {(value: number) => string} */
function format(digits, more = {}) {
  const how = new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits, ...more });
  return (value) => how.format(value).replace("-", "−");
}

export const count = format(0);
export const oneDigit = format(1);
export const twoDigits = format(2);
export const signed = format(2, { signDisplay: "exceptZero" });
export const signedShort = format(1, { signDisplay: "exceptZero" });
export const share = format(1, { style: "percent" });
export const signedShare = format(1, { style: "percent", signDisplay: "exceptZero" });

/** By whether people rate here, or choose. @param {string} rated @param {string} chosen */
export const worded = (rated, chosen) => (state.model.rated ? rated : chosen);

/** How many people know an item. @param {number} n */
export function ratersInWords(n) {
  return n === 0 ? worded("no ratings yet", "new") : worded(counted(n, "rating"), counted(n, "person", "people"));
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

/** @param {{id: import("./api.js").Id, title?: string|null}} item */
export function titleOf(item) {
  return item.title || `Item ${keyOf(item.id)}`;
}

/** A title whose year steps back a little. @param {{id: import("./api.js").Id, title?: string|null}} item */
export function titleParts(item) {
  const text = titleOf(item);
  const year = /^(.+) (\(\d{4}\))$/s.exec(text);
  return year ? [year[1], " ", h("span", { class: "year" }, year[2])] : [text];
}

/** One line about an item: what it is, without what its title says already. @param {import("./api.js").Item} item */
export function attributesLine(item) {
  const attributes = item.attributes ?? {};
  const parts = [];
  for (const { name, kind } of state.model.item_columns) {
    const value = attributes[name];
    if (value === undefined || value === null || kind === "text" || kind === "flag" || parts.length >= 4) continue;
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

/** The hue of an item: things of one kind look alike all over the page. @param {import("./api.js").Item} item */
export function hueOf(item) {
  const column = kindColumn();
  const value = column ? item.attributes?.[column.name] : flagsOf(item)[0];
  return hueOfGroup(Array.isArray(value) ? value[0] : value);
}

/** @param {*} group @returns {number} degrees; neighbours in the list of values are far apart */
export function hueOfGroup(group) {
  const values = kindColumn()?.values.map((one) => String(one.value)) ?? flagColumns().map((column) => column.name);
  let place = values.indexOf(String(group));
  if (place < 0) place = [...String(group ?? "")].reduce((sum, letter) => sum + (letter.codePointAt(0) ?? 0), 0);
  return Math.round((place * 137.508 + 205) % 360);
}

/** The column that says best what kind of thing an item is. */
function kindColumn() {
  const columns = state.model.item_columns;
  return columns.find((column) => column.kind === "several") ?? columns.find((column) => column.kind === "category");
}
