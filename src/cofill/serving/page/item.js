// One item: what it is, what everybody gave it, what is like it.

import { aborted, api, keyOf, Problem } from "./api.js";
import { cover } from "./cover.js";
import { fill, h, makeDialog } from "./dom.js";
import { closeItem, openItem, route } from "./route.js";
import { ratingControl } from "./stars.js";
import { state } from "./state.js";
import { loading, nothing, skeletons } from "./status.js";
import { showWhy } from "./why.js";
import {
  columnInWords, count, counted, flagColumns, flagsOf, oneDigit, ratingInWords, titleOf, titleParts, twoDigits, valueInWords, worded,
} from "./words.js";

/** Shows the item that the address names. */
export function itemDialog() {
  const { dialog, body } = makeDialog({ label: "Item", className: "item-dialog", onclose: closeItem });
  /** @type {AbortController|null} */
  let asked = null;
  /** @type {string|null} */
  let shown = null;

  return function follow() {
    const { item } = route();
    if (item === shown) return;
    shown = item;
    asked?.abort();
    if (item === null) {
      dialog.close();
      return;
    }
    const { signal } = (asked = new AbortController());
    loading(body, () => known(item, signal), (found) => {
      if (found === null) return unknown(() => dialog.close());
      dialog.setAttribute("aria-label", titleOf(found));
      queueMicrotask(() => body.querySelector("rating-control")?.focus({ preventScroll: true }));
      return content(found, signal);
    }, skeletons(4, "line"));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  };
}

/** What the server says of an item; null of one that it does not know. @param {string} item @param {AbortSignal} signal */
async function known(item, signal) {
  try {
    return await api.item(item, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

/** @param {() => void} close */
function unknown(close) {
  return h("div", { class: "gone" },
    nothing("This is not here any more.", "It may have been taken away, or the link that led here may be wrong."),
    h("button", { type: "button", class: "primary", onclick: close }, "See what is here"));
}

/** @param {*} item the answer of /v1/item @param {AbortSignal} signal */
function content(item, signal) {
  return [
    h("header", {}, cover(item, { titled: true }), h("div", {}, h("h2", {}, titleParts(item)), facts(item), yours(item, signal))),
    distribution(item.ratings),
    similar(item.similar),
  ];
}

/** @param {*} item */
function facts(item) {
  const flags = new Set(flagColumns().map((column) => column.name));
  /** @param {*} value */
  const tells = (value) => value !== null && value !== "" && value !== false && !(Array.isArray(value) && value.length === 0);
  const pictures = new Set(state.model.item_columns.filter((one) => one.kind === "image").map((one) => one.name));
  const rows = Object.entries(item.attributes ?? {})
    .filter(([name, value]) => !flags.has(name) && !pictures.has(name) && tells(value));
  if (flagsOf(item).length) rows.push(["Is", flagsOf(item)]);
  if (rows.length === 0) return null;
  return h("dl", { class: "facts" }, rows.map(([name, value]) => [
    h("dt", {}, columnInWords(name)),
    h("dd", {}, Array.isArray(value) ? value.map((one) => h("span", { class: "tag" }, one)) : valueInWords(value)),
  ]));
}

/** One's rating, or until there is one what the model expects, which follows every rating. @param {*} item @param {AbortSignal} signal */
function yours(item, signal) {
  const { rated } = state.model;
  const control = ratingControl(item, { captioned: true });
  const why = h("div", { class: "item-why" });
  const predict = async () => {
    try {
      const found = state.user !== null ? (await api.predictions([{ user: state.user, item: item.id }], signal)).ratings[0]
        : (await api.recommendations({ ratings: [], among: [item.id], n: 1 }, signal)).items[0]?.rating;
      control.predict(found ?? null);
    } catch (error) {
      if (!(error instanceof Problem) && !aborted(error)) console.error(error); // a prediction is no more than a help
    }
  };
  const explain = () => {
    details.hidden = state.user === null || (state.ratings.size === 0 && state.about === null);
    if (details.open && !details.hidden) showWhy(why, item, rated ? "rating" : "list");
    else fill(why);
  };
  const details = h("details", { ontoggle: explain },
    h("summary", {}, worded("What the prediction is made of", "Why it is in the list")), why);
  for (const follow of rated ? [predict, explain] : [explain]) {
    follow();
    state.addEventListener("settled", follow, { signal });
  }
  return h("div", { class: "yours" }, control, details);
}

/** @param {{count: number, mean: number|null, distribution: {rating: number, count: number}[]}} ratings */
function distribution(ratings) {
  if (!state.model.rated) return h("section", {}, h("h3", {}, `Chosen by ${counted(ratings.count, "person", "people")}`));
  if (!ratings.count) return h("section", {}, h("h3", {}, "Ratings"), h("p", { class: "muted" }, "No ratings yet."));
  const most = Math.max(...ratings.distribution.map((one) => one.count));
  /** @param {{rating: number, count: number}} one */
  const words = (one) => `${ratingInWords(one.rating)}: ${count(one.count)}`;
  return h("section", {},
    h("h3", {}, counted(ratings.count, "rating"), h("span", { class: "muted" }, `, ${oneDigit(ratings.mean ?? 0)} on average`)),
    h("ol", { class: "histogram" }, ratings.distribution.map((one) => h("li", {},
      h("span", { class: "unseen" }, words(one)),
      h("span", {
        class: "column", "aria-hidden": "true", title: words(one), style: { "--height": `${(one.count / most) * 100}%` },
      }),
      h("span", { class: "tick", "aria-hidden": "true" }, String(one.rating))))));
}

/** @param {(import("./api.js").Item & {similarity: number})[]} items */
function similar(items) {
  if (!items?.length) return null;
  return h("section", {}, h("h3", {}, "Similar"),
    h("ul", { class: "similar" }, items.map((item) => h("li", { "data-item": keyOf(item.id) },
      h("div", { class: "cover-frame", onclick: () => openItem(item.id) }, cover(item)),
      h("button", { type: "button", class: "title", onclick: () => openItem(item.id) }, titleParts(item)),
      h("span", { class: "likeness", style: { "--share": `${Math.max(0, item.similarity) * 100}%` } },
        h("span", { class: "unseen" }, `likeness ${twoDigits(item.similarity)}`)),
      ratingControl(item)))));
}
