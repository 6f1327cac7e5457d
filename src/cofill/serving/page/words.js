// Numbers, titles and attributes as people read them.

import { keyOf } from "./api.js";
import { h } from "./dom.js";
import { state } from "./state.js";

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
 * would not be what it is made of.
 */
export function addingUp(parts, total, unit) {
  const wanted = Math.round(total / unit);
  const whole = parts.map((part) => Math.floor(part / unit));
  const byRest = parts.map((_, i) => i).sort((a, b) => (parts[b] / unit - whole[b]) - (parts[a] / unit - whole[a]));
  let missing = wanted - whole.reduce((sum, one) => sum + one, 0);
  for (let turn = 0; missing !== 0 && byRest.length > 0; turn += 1) {
    const step = Math.sign(missing);
    whole[byRest.at(step > 0 ? turn % byRest.length : -1 - (turn % byRest.length))] += step;
    missing -= step;
  }
  return { parts: whole.map((one) => one * unit), total: wanted * unit };
}

/** By whether people rate here, or choose. */
export const worded = (rated, chosen) => (state.model.rated ? rated : chosen);

export const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** What everybody says of an item. */
export function everybodyInWords({ raters, mean }) {
  if (raters === 0) return worded("No ratings yet", "New");
  if (!state.model.rated) return `Chosen by ${counted(raters, "person", "people")}`;
  return mean === null ? counted(raters, "rating") : `${oneDigit(mean)} from ${counted(raters, "rating")}`;
}

/** Stars where the scale is one of stars, else the bare number. */
export function ratingInWords(value) {
  const number = String(Math.round(value * 100) / 100);
  return starred() ? `${number} ${value === 1 ? "star" : "stars"}` : number;
}

/** Whether ratings look like stars: few, whole or half, from above nothing. */
export function starred() {
  const { low, high, step } = state.model.scale;
  return low > 0 && high <= 10 && Number.isInteger(high) && [null, 0.5, 1].includes(step);
}

/** Columns of yes and no, such as a column for each genre; the most frequent first. */
export function flagColumns() {
  const yes = (column) => column.values.find((one) => one.value === true)?.count ?? 0;
  const flags = state.model.item_columns.filter((column) => column.kind === "flag" && yes(column) > 0);
  return flags.sort((a, b) => yes(b) - yes(a));
}

/** What an item is, of that; what is rare says most. */
export function flagsOf(item) {
  return flagColumns().filter((column) => item.attributes?.[column.name] === true).map((column) => column.name).reverse();
}

const ARTICLES = "The|A|An|Le|La|Les|L'|Un|Une|Der|Die|Das|Ein|Eine|Il|Lo|Gli|Una|El|Los|Las|Den|Det|De|Het|Een";
const ARTICLE_LAST = new RegExp(`^(.+), (${ARTICLES})$`, "s");

/** "Bells, The" as people say it; catalogues write the article last so that titles sort. */
const articleFirst = (text) =>
  text.replace(ARTICLE_LAST, (_, rest, article) => (article.endsWith("'") ? article + rest : `${article} ${rest}`));

export function titleOf(item) {
  if (!item.title) return `Item ${keyOf(item.id)}`;
  // Other titles and the year follow in brackets: "Postino, Il (Postman, The) (1994)".
  const parts = /^([^(]*\S) (\(.*\))$/s.exec(item.title);
  if (!parts) return articleFirst(item.title);
  return `${articleFirst(parts[1])} ${parts[2].replace(/\(([^()]*)\)/g, (_, inner) => `(${articleFirst(inner)})`)}`;
}

/** A title and the year in brackets at its end. */
export function titleAndYear(item) {
  const [, title, year] = /^(.+) \((\d{4})\)$/s.exec(titleOf(item)) ?? [null, titleOf(item), null];
  return { title, year };
}

/** A title whose year steps back a little. */
export function titleParts(item) {
  const { title, year } = titleAndYear(item);
  return [title, year && [" ", h("span", { class: "year" }, `(${year})`)]];
}

/** One line about an item: what it is, without what its title says already. */
export function attributesLine(item) {
  const parts = [];
  for (const { name, kind } of state.model.item_columns) {
    const value = item.attributes?.[name];
    if (value === undefined || value === null || ["text", "flag", "image"].includes(kind) || parts.length >= 4) continue;
    const short = kind === "date" ? String(value).slice(0, 4) : String(value);
    if (kind === "several") {
      if (!parts.some(Array.isArray)) parts.push(value.slice(0, 3)); // of genres and tags, the genres
    } else if (!titleOf(item).includes(short) && !(kind === "date" && titleAndYear(item).year)) {
      parts.push(kind === "number" && !/year/i.test(name) ? `${columnInWords(name)} ${short}` : short);
    }
  }
  return [...parts.flat(), ...flagsOf(item).slice(0, 3)].join(" · ");
}

export function columnInWords(name) {
  const words = name.replaceAll("_", " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A value of an attribute, a setting or a measure. */
export function valueInWords(value) {
  if (value === null || value === undefined || value === "" || value.length === 0) return "–";
  if (Array.isArray(value)) return value.map(valueInWords).join(", ");
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "object") {
    return Object.entries(value).map(([name, one]) => `${name.replaceAll("_", " ")} ${valueInWords(one)}`).join(", ");
  }
  return String(typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value);
}
