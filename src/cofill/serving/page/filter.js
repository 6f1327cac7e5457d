// Conditions on what an item is, as a form of the columns that the model has: boxes for kinds, ranges for numbers.

import { button, fill, freshId, h } from "./dom.js";
import { state } from "./state.js";
import { columnInWords, flagColumns } from "./words.js";

export function filterBar() {
  const wrong = h("p", { class: "wrong", role: "alert", hidden: true }, "The first is above the second.");
  const form = h("form", {
    class: "filter", id: freshId("filter"), hidden: true, onchange: read, onsubmit: (event) => event.preventDefault(),
  });
  const active = h("div", { class: "active-filters" });
  const open = button({
    class: "quiet", "aria-expanded": "false", "aria-controls": form.id,
    onclick: () => {
      form.hidden = !form.hidden;
      open.setAttribute("aria-expanded", String(!form.hidden));
    },
  }, "Filter");

  function build() {
    const flags = flagColumns().map(({ name }) => box(name, true, name));
    const fields = state.model.item_columns.map((one) => (chosen(one) ? kinds(one) : ranged(one) && range(one)));
    open.hidden = flags.length === 0 && !fields.some(Boolean);
    fill(form, fields, flags.length > 0 && group("Is", h("div", { class: "chips" }, flags)), wrong);
  }

  /** What the form says, by column. */
  function read() {
    const where = {};
    let crossed = false;
    for (const field of form.elements) {
      const { name, value, dataset: { bound, years } } = field;
      if (field.checked) (where[name] ??= []).push(field.told);
      if (bound) field.setAttribute("aria-invalid", "false");
      if (!bound || value === "" || !Number.isFinite(field.valueAsNumber)) continue;
      const limits = (where[name] ??= {});
      limits[bound] = years ? String(field.valueAsNumber).padStart(4, "0") : field.valueAsNumber; // a year is all of its days
      if (bound === "max" && limits.min > limits.max) {
        crossed = true;
        field.setAttribute("aria-invalid", "true");
      }
    }
    wrong.hidden = !crossed;
    if (crossed) return;
    const changed = JSON.stringify(where) !== JSON.stringify(state.where);
    state.where = where;
    if (changed) state.tell("where");
    fill(active, Object.entries(where).flatMap(([name, condition]) => summary(name, condition)));
  }

  /** What holds, each with a way out. */
  function summary(name, condition) {
    const pill = (text, fields) => button({
      class: "pill", "aria-label": `${text}: take this condition away`,
      onclick: () => {
        for (const field of fields) [field.checked, field.value] = [false, field.type === "number" ? "" : field.value];
        read();
      },
    }, text, h("span", { "aria-hidden": "true" }, " ×"));
    const own = [...form.elements].filter((field) => field.name === name);
    if (!Array.isArray(condition)) {
      return [pill(`${columnInWords(name)} ${condition.min ?? "…"} – ${condition.max ?? "…"}`, own)];
    }
    return own.filter((field) => field.checked).map((field) => pill(field.told === true ? name : field.told, [field]));
  }

  state.on("model", () => {
    build();
    for (const field of form.elements) {
      const condition = state.where[field.name];
      if (Array.isArray(condition)) field.checked = condition.includes(field.told);
      else if (condition) field.value = condition[field.dataset.bound] ?? "";
    }
    read();
  });
  build();
  return { button: open, element: h("div", {}, form, active) };
}

const chosen = (column) => ["several", "category"].includes(column.kind) && column.values.length > 1;
const ranged = (column) => ["number", "date"].includes(column.kind) && column.low !== null && column.low < column.high;
const group = (title, ...fields) => h("fieldset", {}, h("legend", {}, title), fields);

/** A box to tick; `told` is what the server is told. */
function box(name, told, words) {
  const field = Object.assign(h("input", { type: "checkbox", class: "unseen", name }), { told });
  return h("label", { class: "chip" }, field, words);
}

const kinds = ({ name, values }) =>
  group(columnInWords(name), h("div", { class: "chips" }, values.map(({ value }) => box(name, value, value))));

function range({ name, kind, low, high }) {
  const years = kind === "date"; // will do: one stands for all of its days
  const [min, max] = [low, high].map((edge) => (years ? Number(String(edge).slice(0, 4)) : edge));
  const field = (bound, words, edge) => h("input", {
    type: "number", name, min, max, step: "any", placeholder: edge, inputmode: "decimal", "data-bound": bound,
    "data-years": years, "aria-label": `${columnInWords(name)}, ${words}`,
  });
  return group(columnInWords(name), h("div", { class: "range" },
    field("min", "at least", min), h("span", { "aria-hidden": "true" }, "–"), field("max", "at most", max)));
}
