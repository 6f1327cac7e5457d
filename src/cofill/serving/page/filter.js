// Conditions on what an item is: chips for kinds, ranges for numbers. They come from the columns that the model has.

import { fill, freshId, h } from "./dom.js";
import { state } from "./state.js";
import { columnInWords, flagColumns } from "./words.js";

const CHIPS = 12;
const AFTER_TYPING = 500;

/** @returns {{button: HTMLElement, element: HTMLElement}} */
export function filterBar() {
  const id = freshId("filter");
  const panel = h("div", { class: "filter", id, hidden: true });
  const active = h("div", { class: "active-filters" });
  const button = h("button", {
    type: "button", class: "quiet", "aria-expanded": "false", "aria-controls": id,
    onclick: () => {
      panel.hidden = !panel.hidden;
      button.setAttribute("aria-expanded", String(!panel.hidden));
    },
  }, "Filter");
  /** @param {*} column */
  const kinds = ({ name, values }) => chipSet(columnInWords(name), values.map(({ value }) => ({ column: name, value })));
  let built = new AbortController();
  const build = () => {
    built.abort();
    built = new AbortController();
    const columns = state.model.item_columns.filter((column) => chips(column) || ranged(column));
    const flags = flagColumns();
    button.hidden = columns.length + flags.length === 0;
    fill(panel, columns.map((column) => (ranged(column) ? range(column, built.signal) : kinds(column))),
      flags.length ? chipSet("Is", flags.map((column) => ({ column: column.name, value: true, label: column.name }))) : null);
  };
  const mark = () => {
    for (const chip of panel.querySelectorAll(".chip")) {
      chip.setAttribute("aria-pressed", String(chosen(chip.dataset.column, chip.dataset.value)));
    }
    fill(active, Object.entries(state.where).flatMap(([name, condition]) => summary(name, condition)));
  };
  state.on("where", mark);
  state.on("model", build);
  build();
  mark();
  return { button, element: h("div", {}, panel, active) };
}

/** @param {*} column */
const chips = (column) => ["several", "category"].includes(column.kind) && column.values?.length > 1;
/** @param {*} column */
const ranged = (column) => ["number", "date"].includes(column.kind) && column.low !== null && column.low < column.high;

/** @param {string|undefined} name @param {string|undefined} value */
function chosen(name, value) {
  return (state.where[name ?? ""] ?? []).some?.((one) => String(one) === value) ?? false;
}

/** @param {string} name @param {*} condition null: none */
function set(name, condition) {
  const where = { ...state.where };
  if (condition === null) delete where[name];
  else where[name] = condition;
  state.where = where;
  state.tell("where");
}

/** @param {string} name @param {*} value */
function toggle(name, value) {
  const now = state.where[name] ?? [];
  const next = now.includes(value) ? now.filter((one) => one !== value) : [...now, value];
  set(name, next.length ? next : null);
}

/** @param {string} title @param {{column: string, value: *, label?: string}[]} choices */
function chipSet(title, choices) {
  /** @param {{column: string, value: *, label?: string}} one */
  const chip = ({ column, value, label = value }) => h("button", {
    type: "button", class: "chip", "data-column": column, "data-value": String(value),
    "aria-pressed": String(chosen(column, String(value))), onclick: () => toggle(column, value),
  }, label);
  const row = h("div", { class: "chips" }, choices.slice(0, CHIPS).map(chip));
  if (choices.length > CHIPS) {
    const more = h("button", { type: "button", class: "link", onclick: () => {
      const added = choices.slice(CHIPS).map(chip);
      more.replaceWith(...added);
      added[0].focus();
    } }, `${choices.length - CHIPS} more`);
    row.append(more);
  }
  return h("fieldset", {}, h("legend", {}, title), row);
}

/** @param {*} column @param {AbortSignal} signal when another takes its place */
function range(column, signal) {
  const { name } = column;
  const dated = column.kind === "date"; // years will do: one stands for all of its days
  const [low, high] = [column.low, column.high].map((edge) => (dated ? Number(String(edge).slice(0, 4)) : edge));
  let timer = 0;
  /** @param {string} which @param {number} edge */
  const input = (which, edge) => h("input", {
    type: "number", min: low, max: high, step: "any", placeholder: String(edge), inputmode: "decimal",
    "aria-label": `${columnInWords(name)}, ${which}`, value: state.where[name]?.[which === "at least" ? "min" : "max"],
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(read, AFTER_TYPING);
    },
  });
  const from = /** @type {HTMLInputElement} */ (input("at least", low));
  const to = /** @type {HTMLInputElement} */ (input("at most", high));
  const wrong = h("p", { class: "wrong", role: "alert", hidden: true }, "The first is above the second.");
  let held = state.where[name] !== undefined;
  const read = () => {
    const bounds = {};
    /** @param {HTMLInputElement} field */
    const bound = (field) => (dated ? String(field.valueAsNumber).padStart(4, "0") : field.valueAsNumber);
    if (from.value !== "" && Number.isFinite(from.valueAsNumber)) bounds.min = bound(from);
    if (to.value !== "" && Number.isFinite(to.valueAsNumber)) bounds.max = bound(to);
    const crossed = bounds.min > bounds.max;
    wrong.hidden = !crossed;
    for (const field of [from, to]) field.setAttribute("aria-invalid", String(crossed));
    if (!crossed) set(name, Object.keys(bounds).length ? bounds : null);
  };
  state.on("where", () => {
    const holds = state.where[name] !== undefined;
    if (held && !holds && ![from, to].includes(document.activeElement)) from.value = to.value = ""; // taken away below
    held = holds;
  }, { signal });
  return h("fieldset", {}, h("legend", {}, columnInWords(name)),
    h("div", { class: "range" }, from, h("span", { "aria-hidden": "true" }, "–"), to), wrong);
}

/** What holds, each with a way out. @param {string} name @param {*} condition */
function summary(name, condition) {
  /** @param {string} text @param {() => void} out */
  const pill = (text, out) => h("button", {
    type: "button", class: "pill", "aria-label": `${text}: take this condition away`, onclick: out,
  }, text, h("span", { "aria-hidden": "true" }, " ×"));
  if (Array.isArray(condition)) {
    return condition.map((value) => pill(value === true ? name : String(value), () => toggle(name, value)));
  }
  return [pill(`${columnInWords(name)} ${condition.min ?? "…"} – ${condition.max ?? "…"}`, () => set(name, null))];
}
