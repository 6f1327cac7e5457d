// One item: what it is, what everybody gave it, what is like it.

import { api, keyOf } from "./api.js";
import { makeDialog } from "./dialog.js";
import { fill, h } from "./dom.js";
import { closeItem, openItem, route } from "./route.js";
import { predictedStars, ratingControl } from "./stars.js";
import { state } from "./state.js";
import { loading, skeletons } from "./status.js";
import { showWhy } from "./why.js";
import {
  columnInWords, count, counted, flagColumns, flagsOf, hueOf, oneDigit, ratingInWords, titleOf, titleParts, valueInWords, worded,
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
    loading(body, () => api.item(item, signal), (found) => {
      dialog.setAttribute("aria-label", titleOf(found));
      queueMicrotask(() => body.querySelector("rating-control")?.focus({ preventScroll: true }));
      return content(found, signal);
    }, skeletons(4, "line"));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  };
}

/** @param {*} item the answer of /v1/item @param {AbortSignal} signal */
function content(item, signal) {
  return [
    h("header", { style: { "--hue": hueOf(item) } }, h("h2", {}, titleParts(item)), facts(item)),
    h("div", { class: "yours" },
      h("div", {}, h("h3", {}, `${state.other === null ? "Your" : "Their"} ${worded("rating", "choice")}`), ratingControl(item)),
      prediction(item, signal)),
    distribution(item.ratings),
    similar(item.similar),
  ];
}

/** @param {*} item */
function facts(item) {
  const flags = new Set(flagColumns().map((column) => column.name));
  /** @param {*} value */
  const tells = (value) => value !== null && value !== "" && value !== false && !(Array.isArray(value) && value.length === 0);
  const rows = Object.entries(item.attributes ?? {}).filter(([name, value]) => !flags.has(name) && tells(value));
  if (flagsOf(item).length) rows.push(["Is", flagsOf(item)]);
  if (rows.length === 0) return null;
  return h("dl", { class: "facts" }, rows.map(([name, value]) => [
    h("dt", {}, columnInWords(name)),
    h("dd", {}, Array.isArray(value) ? value.map((one) => h("span", { class: "tag" }, one)) : valueInWords(value)),
  ]));
}

/** What the model expects, which follows every rating. @param {*} item @param {AbortSignal} signal */
function prediction(item, signal) {
  const number = h("div", {});
  const why = h("div", { class: "item-why" });
  const { rated } = state.model;
  const place = rated ? h("div", {}, h("h3", {}, "Predicted"), number) : null;
  const bring = async () => {
    if (state.user !== null) return (await api.predictions([{ user: state.user, item: item.id }], signal)).ratings[0];
    return (await api.recommendations({ ratings: [], among: [item.id], n: 1 }, signal)).items[0]?.rating ?? null;
  };
  const refresh = () => loading(number, bring, (value) => (value === null ? "–" : predictedStars(value)), skeletons(1, "line"));
  const explain = () => {
    details.hidden = state.user === null || state.ratings.size === 0;
    if (details.open && !details.hidden) showWhy(why, item, rated ? "rating" : "list");
    else fill(why);
  };
  const details = h("details", { ontoggle: explain },
    h("summary", {}, worded("What it is made of", "Why it is in the list")), why);
  for (const follow of rated ? [refresh, explain] : [explain]) {
    follow();
    state.addEventListener("settled", follow, { signal });
  }
  return [place, details];
}

/** @param {{count: number, mean: number|null, distribution: {rating: number, count: number}[]}} ratings */
function distribution(ratings) {
  if (!state.model.rated) return h("section", {}, h("h3", {}, `Chosen by ${counted(ratings.count, "person", "people")}`));
  if (!ratings.count) return h("section", {}, h("h3", {}, "Ratings"), h("p", { class: "muted" }, "Nobody has rated it yet."));
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
      h("button", { type: "button", class: "title", onclick: () => openItem(item.id) }, titleParts(item)),
      h("span", { class: "likeness", style: { "--share": `${Math.max(0, item.similarity) * 100}%` } },
        h("span", { class: "unseen" }, `likeness ${item.similarity.toFixed(2)}`)),
      ratingControl(item)))));
}
