// About the model: what it was trained on, how it learned, how good it is, every setting.

import { api } from "./api.js";
import { curve } from "./curve.js";
import { h } from "./dom.js";
import { state } from "./state.js";
import { loading, skeletons } from "./status.js";
import { columnInWords, count, flagColumns, valueInWords } from "./words.js";

const KINDS = { cfn: "Autoencoder (CFN)" };

/** @returns {HTMLElement} */
export function modelView() {
  const place = h("div", {});
  const element = h("div", { class: "model-view" }, h("h1", {}, "About the model"), place);
  // Each look asks again: live ratings have come, and the model may have been replaced.
  element.addEventListener("shown", () => loading(place, api.model, (model) => {
    state.model = { ...state.model, ratings: model.ratings };
    return about(model);
  }, skeletons(6, "line")));
  return element;
}

/** @param {*} model the answer of /v1/model */
function about(model) {
  const rmse = model.measures?.validation_rmse;
  return [
    h("p", { class: "note" }, sentence(model)),
    h("ul", { class: "figures" },
      figure(count(model.users), "users"), figure(count(model.items), "items"),
      figure(count(model.ratings.trained), "ratings to learn from"), figure(model.ratings.live === null ? "?" : count(model.ratings.live), "live ratings"),
      figure(`${model.scale.low} – ${model.scale.high}`, "scale of ratings"),
      rmse ? figure(Number(rmse).toFixed(3), "off, typically (validation RMSE)") : null),
    learning(model.history ?? []),
    h("div", { class: "tables" },
      table("Measures", model.measures), table("Data", model.data), columns(model)),
    h("details", {}, h("summary", {}, "All settings"), table("Settings", model.settings)),
    h("p", { class: "muted small" }, `Version ${model.version}, cofill ${model.cofill_version}. `,
      h("a", { href: "docs" }, "The API"), " has all of this for programs."),
  ];
}

/** @param {*} model */
function sentence(model) {
  const kind = KINDS[model.kind] ?? model.kind.toUpperCase();
  const rows = model.orientation === "both" ? ", one network for users and one for items"
    : `, a row for each ${model.orientation}`;
  return `${kind}${rows}${model.trained ? `, trained ${when(model.trained)}` : ""}.`;
}

/** @param {string} time */
function when(time) {
  const date = new Date(time);
  return Number.isNaN(date.valueOf()) ? String(time) : date.toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short" });
}

/** @param {string} number @param {string} label */
function figure(number, label) {
  return h("li", {}, h("strong", {}, number), h("span", {}, label));
}

/** @param {Object<string, *>[]} history of one network or two */
function learning(history) {
  const curves = [...new Set(history.map((record) => record.rows))].flatMap((rows) => {
    const own = history.filter((record) => record.rows === rows);
    const which = rows ? `, rows are ${rows}s` : "";
    return [
      line(`Error on ratings set aside (RMSE)${which}`, own, "validation_rmse"),
      line(`Training loss${which}`, own.filter((record) => record.phase === own[0].phase), "loss"),
    ];
  }).filter(Boolean);
  return h("section", {}, h("h2", {}, "Learning"), curves.length ? h("div", { class: "curves" }, curves)
    : h("p", { class: "muted" }, "This kind of model does not learn by epochs, so there is no curve."));
}

/** @param {string} title @param {Object<string, *>[]} history @param {string} what */
function line(title, history, what) {
  const points = history.map((record) => ({ x: record.epoch, y: record[what] })).filter(({ y }) => Number.isFinite(y));
  return points.length > 1 ? curve({ title, axis: "epoch", markLeast: what !== "loss", points }) : null;
}

/** @param {string} title @param {Object<string, *>|null|undefined} values */
function table(title, values) {
  const rows = Object.entries(values ?? {}).filter(([, value]) => value !== null);
  if (rows.length === 0) return null;
  return h("section", {}, h("table", {}, h("caption", {}, title), h("tbody", {}, rows.map(([name, value]) => h("tr", {},
    h("th", { scope: "row" }, LABELS[name] ?? columnInWords(name)), h("td", {}, cell(name, value)))))));
}

const LABELS = {
  validation_rmse: "Off, typically, on ratings set aside (RMSE)", epochs: "Epochs trained", seconds: "Seconds of training",
  users: "People", items: "Items", ratings: "Ratings", rated: "Trained on ratings", density: "Share of pairs that are known",
  mean: "Mean rating", scale: "Scale", first_time: "First rating", last_time: "Last rating", user_features: "What is known of people",
  item_features: "What is known of items",
};

/** @param {string} name @param {*} value */
function cell(name, value) {
  if (/_time$/.test(name) && typeof value === "number") {
    return new Date(value * 1000).toLocaleDateString("en-GB", { dateStyle: "long" });
  }
  if (value !== null && typeof value === "object" && "described" in value) {
    return `${count(value.columns)} columns, ${count(value.described)} described`;
  }
  return Number.isInteger(value) && !/seed|year/.test(name) ? count(value) : valueInWords(value);
}

/** @param {*} model */
function columns(model) {
  const items = model.item_columns.filter((column) => column.kind !== "flag").map((column) => [column.name, range(column)]);
  if (flagColumns().length) items.push(["Is", flagColumns().map((column) => column.name)]);
  const users = (model.user_columns ?? []).map((column) => [column.column ?? column.name, column.kind]);
  return [table("What is known of items", Object.fromEntries(items)), table("What is known of users", Object.fromEntries(users))];
}

/** @param {*} column */
function range(column) {
  if (column.low !== null && column.low !== undefined) return `${valueInWords(column.low)} – ${valueInWords(column.high)}`;
  const names = (column.values ?? []).slice(0, 5).map((one) => one.value);
  return names.length ? `${names.join(", ")}${column.values.length > 5 ? "…" : ""}` : column.kind;
}
