// What kind of thing an item is: a genre, say. Things of one kind have one colour all over the page.

import { state } from "./state.js";

const COLOURS = 8; // that can be told apart; --group-0 to --group-7 in base.css
const MOST_VALUES = 40; // of a column that tells kinds apart

/** The names of the groups that have a colour, the largest first. @returns {string[]} */
export function groupNames() {
  const column = kindColumn();
  if (column) return column.values.slice(0, COLOURS).map((one) => String(one.value));
  return flagColumns().slice(0, COLOURS).map((one) => one.name);
}

/** The first of its kinds that has a colour. @param {import("./api.js").Item} item @returns {string|null} */
export function groupOf(item) {
  const names = groupNames();
  const column = kindColumn();
  if (!column) return flagsOf(item).find((name) => names.includes(name)) ?? null;
  const value = item.attributes?.[column.name];
  return (Array.isArray(value) ? value : [value]).map(String).find((name) => names.includes(name)) ?? null;
}

/** The number of its colour; -1 for what has none. @param {string|null} group */
export function colourOf(group) {
  return group === null ? -1 : groupNames().indexOf(group);
}

/** Its colour in CSS. @param {string|null} group */
export function colourVariable(group) {
  const number = colourOf(group);
  return number < 0 ? "--group-other" : `--group-${number}`;
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

/** The column that says best what kind of thing an item is, as the server's map has it. */
function kindColumn() {
  return state.model.item_columns.find(({ kind, values }) =>
    kind !== "flag" && values.length > 1 && values.length <= MOST_VALUES);
}
