// About the model: what it was trained on, how it learned, how good it is, every setting.

import { api } from "./api.js";
import { freshId, h, svg } from "./dom.js";
import { state } from "./state.js";
import { loading, skeletons } from "./status.js";
import { columnInWords, count, flagColumns, valueInWords } from "./words.js";

const [WIDTH, HEIGHT] = [640, 260];
const [LEFT, RIGHT, TOP, BOTTOM] = [56, WIDTH - 16, 16, HEIGHT - 42];

export function modelView() {
  const place = h("div", {});
  // Each look asks again: live ratings have come, and the model may have been replaced.
  return h("div", { class: "model-view", onshown: () => loading(place, () => api.model(), about, skeletons(6, "line")) },
    h("h1", {}, "About the model"), place);
}

function about(model) {
  const rmse = model.measures?.validation_rmse;
  const kind = model.kind === "cfn" ? "Autoencoder (CFN)" : model.kind.toUpperCase();
  const rows = model.orientation === "both" ? "a network for users and one for items" : `a row for each ${model.orientation}`;
  return [
    h("p", { class: "note" }, `${kind}, ${rows}, trained ${when(model.trained)}.`),
    figures({
      users: count(model.users), items: count(model.items), "ratings to learn from": count(model.ratings.trained),
      "live ratings": model.ratings.live === null ? "?" : count(model.ratings.live),
      "scale of ratings": `${model.scale.low} – ${model.scale.high}`,
      ...(rmse && { "off, typically (validation RMSE)": Number(rmse).toFixed(3) }),
    }),
    h("section", {}, h("h2", {}, "Learning"), curves(model.history)),
    h("div", { class: "tables" },
      table("Measures", model.measures), table("Data", model.data), table("What is known of items", itemColumns(model)),
      table("What is known of users", Object.fromEntries(model.user_columns.map((one) => [one.column, one.kind])))),
    h("details", {}, h("summary", {}, "All settings"), table("Settings", model.settings)),
    h("p", { class: "muted small" }, `Version ${model.version}, cofill ${model.cofill_version}. `,
      h("a", { href: "docs" }, "The API"), " has all of this for programs. ",
      h("a", { href: "#/operate" }, "Operate the server"), "."),
  ];
}

export const when = (time) => new Date(time).toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short" });

/** Numbers by what they are of. */
export const figures = (values) => h("ul", { class: "figures" },
  Object.entries(values).map(([label, number]) => h("li", {}, h("strong", {}, number), h("span", {}, label))));

/** Curves of one network or two. */
function curves(history) {
  const found = [...new Set(history.map((record) => record.rows))].flatMap((rows) => {
    const own = history.filter((record) => record.rows === rows);
    const which = rows ? `, rows are ${rows}s` : "";
    return [
      curve(`Error on ratings set aside (RMSE)${which}`, own, "validation_rmse"),
      curve(`Training loss${which}`, own.filter((record) => record.phase === own[0].phase), "loss"),
    ];
  }).filter(Boolean);
  return found.length ? h("div", { class: "curves" }, found)
    : h("p", { class: "muted" }, "This kind of model does not learn by epochs, so there is no curve.");
}

/** A line over epochs, with labelled axes and the best error marked. */
function curve(title, history, what) {
  const points = history.map((record) => ({ x: record.epoch, y: record[what] })).filter(({ y }) => Number.isFinite(y));
  if (points.length < 2) return null;
  const [xs, ys] = [points.map((point) => point.x), points.map((point) => point.y)];
  const upTicks = niceTicks(Math.min(...ys), Math.max(...ys));
  const epochs = niceTicks(xs[0], xs.at(-1)).filter((x) => Number.isInteger(x) && x >= xs[0] && x <= xs.at(-1));
  const across = scale(xs[0], xs.at(-1), LEFT, RIGHT);
  const upward = scale(upTicks[0], upTicks.at(-1), BOTTOM, TOP);
  const least = points.reduce((best, point) => (point.y < best.y ? point : best));
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(upTicks[1] - upTicks[0]))));
  const written = (value) => value.toFixed(digits + 1);
  const text = (x, y, anchor, words, name = "tick") => svg("text", { x, y, class: name, "text-anchor": anchor }, words);
  const name = freshId("curve");
  return h("figure", {}, h("figcaption", {}, title),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-labelledby": name, class: "curve" },
      svg("title", { id: name }, `${title}: from ${written(ys[0])} to ${written(ys.at(-1))} in ${points.length} epochs`),
      upTicks.map((tick) => [
        svg("line", { class: "grid", x1: LEFT, x2: RIGHT, y1: upward(tick), y2: upward(tick) }),
        text(LEFT - 8, upward(tick) + 4, "end", tick.toFixed(digits)),
      ]),
      epochs.map((x) => text(across(x), BOTTOM + 20, "middle", x)),
      text(RIGHT, HEIGHT - 6, "end", "epoch"),
      svg("polyline", { class: "path", points: points.map(({ x, y }) => `${across(x)},${upward(y)}`).join(" ") }),
      what !== "loss" && [
        svg("circle", { class: "best", cx: across(least.x), cy: upward(least.y), r: 5 }),
        text(across(least.x), upward(least.y) - 12, least.x > (xs[0] + xs.at(-1)) / 2 ? "end" : "start",
          `best: ${written(least.y)} after ${least.x}`, "best-label"),
      ]));
}

const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

/** Round numbers around all values. */
function niceTicks(low, high) {
  const rough = (high - low || Math.abs(high) || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? 10 * power;
  const first = Math.floor(low / step);
  return Array.from({ length: Math.max(1, Math.ceil(high / step) - first) + 1 }, (_, i) => (first + i) * step);
}

function table(title, values) {
  const rows = Object.entries(values ?? {}).filter(([, value]) => value !== null);
  return rows.length > 0 && h("section", {}, h("table", {}, h("caption", {}, title), h("tbody", {}, rows.map(([name, value]) =>
    h("tr", {}, h("th", { scope: "row" }, LABELS[name] ?? columnInWords(name)), h("td", {}, cell(name, value)))))));
}

const LABELS = {
  validation_rmse: "Off, typically, on ratings set aside (RMSE)", epochs: "Epochs trained", seconds: "Seconds of training",
  rated: "Trained on ratings", density: "Share of pairs that are known", first_time: "First rating", last_time: "Last rating",
  user_features: "What is known of people", item_features: "What is known of items",
};

function cell(name, value) {
  if (/_time$/.test(name)) return new Date(value * 1000).toLocaleDateString("en-GB", { dateStyle: "long" });
  if (typeof value === "object" && "described" in value) {
    return `${count(value.columns)} columns, ${count(value.described)} described`;
  }
  return Number.isInteger(value) && !/seed|year/.test(name) ? count(value) : valueInWords(value);
}

function itemColumns(model) {
  const columns = model.item_columns.filter((column) => column.kind !== "flag").map(({ name, kind, low, high, values }) => {
    const some = values.slice(0, 5).map((one) => one.value).join(", ") + (values.length > 5 ? "…" : "");
    return [name, low !== null ? `${valueInWords(low)} – ${valueInWords(high)}` : some || kind];
  });
  const flags = flagColumns().map((column) => column.name);
  return Object.fromEntries(flags.length ? [...columns, ["is", flags]] : columns);
}
