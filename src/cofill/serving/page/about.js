// A form for what somebody may say about themselves: one field for each column that the model knows people by.

import { fill, freshId, h, makeDialog } from "./dom.js";
import { state } from "./state.js";
import { reason, toast } from "./status.js";
import { columnInWords } from "./words.js";

/** @typedef {{column: string, kind: string, example: string, choices: string[]}} Column */

const FEW = 8; // choices that are shown at once
const SUGGESTED = 100;

/** The columns that people can fill in; vectors and links they cannot. @returns {Column[]} */
function columns() {
  return state.model.user_columns.filter(({ kind }) => kind in FIELDS);
}

/** An invitation, where the model can make use of it. @returns {HTMLElement} */
export function aboutYou() {
  const open = h("button", { type: "button", class: "quiet", onclick: () => showForm() });
  const text = h("p", {});
  const element = h("section", { class: "about-you", "aria-label": "About you" }, text, open);
  const show = () => {
    element.hidden = state.other !== null || columns().length === 0;
    const said = Object.entries(state.about ?? {});
    open.textContent = said.length ? "Change" : "About you";
    text.textContent = said.length
      ? said.map(([name, value]) => `${columnInWords(name)}: ${Array.isArray(value) ? value.join(", ") : value}`).join(" · ")
      : "Nothing here that you know? Say something about yourself, and the list begins there.";
  };
  for (const name of ["person", "described", "model"]) state.on(name, show);
  show();
  return element;
}

function showForm() {
  const { dialog, body } = makeDialog({ label: "About you", className: "about-dialog", onclose: () => dialog.remove() });
  const fields = columns().map((column) => FIELDS[column.kind](column, state.about?.[column.column]));
  const wrong = h("p", { class: "wrong", role: "alert" });
  /** @param {Object<string, *>|null} about */
  const say = async (about) => {
    try {
      await state.describe(about);
      dialog.close();
      toast(about === null ? "That is forgotten." : "Thank you. The list begins with that.");
    } catch (error) {
      wrong.textContent = reason(error);
    }
  };
  fill(body, h("form", {
    onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      const said = fields.map(({ column, read }) => [column.column, read()]).filter(([, value]) => value !== null);
      say(said.length ? Object.fromEntries(said) : null);
    },
  },
  h("h2", {}, "About you"),
  h("p", { class: "note" }, "Leave out whatever you like. It is used for your recommendations."),
  fields.map(({ element }) => element), wrong,
  h("div", { class: "line" },
    h("button", { type: "submit", class: "primary" }, "Use this"),
    state.about === null ? null : h("button", { type: "button", class: "quiet", onclick: () => say(null) }, "Forget it"))));
  dialog.showModal();
}

/**
 * @typedef {{column: Column, element: HTMLElement, read: () => *}} Field  null: nothing was said
 * @type {Object<string, (column: Column, now: *) => Field>}
 */
const FIELDS = {
  number: (column, now) => input(column, { type: "number", step: "any", inputmode: "decimal", value: now },
    (field) => (Number.isFinite(field.valueAsNumber) ? field.valueAsNumber : null)),
  date: (column, now) => (/^\d{4}$/.test(column.example)
    ? input(column, { type: "number", step: 1, inputmode: "numeric", value: now }, (field) => field.value || null)
    : input(column, { type: "date", value: now }, (field) => field.value || null)),
  text: (column, now) => input(column, { type: "text", value: now }, (field) => field.value.trim() || null),
  flag: (column, now) => chosen(column, ["yes", "no"], false, now),
  category: (column, now) => (column.choices.length > FEW ? select(column, now) : chosen(column, column.choices, false, now)),
  several: (column, now) => (column.choices.length > 5 * FEW ? listed(column, now) : chosen(column, column.choices, true, now)),
  tags: (column, now) => listed(column, now),
};

/** @param {Column} column @param {Object<string, *>} how @param {(field: HTMLInputElement) => *} read @returns {Field} */
function input(column, how, read) {
  const field = /** @type {HTMLInputElement} */ (h("input", {
    placeholder: column.example ? `such as ${column.example}` : null, autocomplete: "off", ...how,
  }));
  return { column, element: h("label", { class: "field" }, columnInWords(column.column), field), read: () => read(field) };
}

/** @param {Column} column @param {*} now @returns {Field} */
function select(column, now) {
  const field = /** @type {HTMLSelectElement} */ (h("select", {}, h("option", { value: "" }, "–"),
    column.choices.map((choice) => h("option", { value: choice, selected: choice === now }, choice))));
  return {
    column, element: h("label", { class: "field" }, columnInWords(column.column), field), read: () => field.value || null,
  };
}

/** Words of one's own, with commas between them. @param {Column} column @param {string[]} [now] @returns {Field} */
function listed(column, now) {
  const id = freshId("choices");
  const field = input(column, { type: "text", list: id, value: now?.join(", ") }, ({ value }) => {
    const words = value.split(",").map((word) => word.trim()).filter(Boolean);
    return words.length ? words : null;
  });
  field.element.append(h("datalist", { id }, column.choices.slice(0, SUGGESTED).map((choice) => h("option", { value: choice }))));
  return field;
}

/** Chips: one of them, or several. @param {Column} column @param {string[]} choices @param {boolean} several @param {*} now @returns {Field} */
function chosen(column, choices, several, now) {
  const held = new Set(several ? now ?? [] : now === undefined ? [] : [now]);
  const chips = choices.map((choice) => h("button", {
    type: "button", class: "chip", "aria-pressed": String(held.has(choice)),
    onclick: () => {
      const had = held.has(choice);
      if (!several) held.clear();
      if (had) held.delete(choice);
      else held.add(choice);
      chips.forEach((chip, i) => chip.setAttribute("aria-pressed", String(held.has(choices[i]))));
    },
  }, choice));
  return {
    column,
    element: h("fieldset", { class: "field" }, h("legend", {}, columnInWords(column.column)), h("div", { class: "chips" }, chips)),
    read: () => (held.size === 0 ? null : several ? [...held] : [...held][0]),
  };
}
