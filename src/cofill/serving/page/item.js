// One item: what it is, what everybody gave it, what is like it.

import { aborted, api, keyOf } from "./api.js";
import { cover } from "./cover.js";
import { button, fill, h, makeDialog } from "./dom.js";
import { closeItem, openItem, route } from "./route.js";
import { ratingControl } from "./stars.js";
import { state } from "./state.js";
import { loading, nothing, reason, skeletons } from "./status.js";
import { showWhy } from "./why.js";
import {
  columnInWords, count, counted, flagsOf, oneDigit, ratingInWords, titleOf, titleParts, twoDigits, valueInWords,
  worded,
} from "./words.js";

/** Shows the item that the address names, whenever it is called. */
export function itemDialog() {
  const { dialog, body } = makeDialog("Item", "item-dialog", closeItem);
  let asked = null;
  let shown = null;

  return function follow() {
    const { item } = route();
    if (item === shown) return;
    shown = item;
    asked?.abort();
    if (item === null) return dialog.close();
    const { signal } = (asked = new AbortController());
    const bring = () => api.item(item, signal).catch((error) => {
      if (error.status !== 404) throw error;
      return null;
    });
    fill(body);
    loading(body, bring, (found) => {
      if (found === null) return gone(() => dialog.close());
      dialog.setAttribute("aria-label", titleOf(found));
      queueMicrotask(() => body.querySelector("rating-control").focus({ preventScroll: true }));
      return [
        h("header", {}, cover(found, { titled: true }),
          h("div", {}, h("h2", {}, titleParts(found)), facts(found), yours(found, signal))),
        distribution(found.ratings),
        similar(found.similar),
      ];
    }, skeletons(4, "line"));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  };
}

const gone = (close) => h("div", { class: "gone" },
  nothing("This is not here any more.", "It may have been taken away, or the link that led here may be wrong."),
  button({ class: "primary", onclick: close }, "See what is here"));

function facts(item) {
  const elsewhere = state.model.item_columns.filter((one) => ["flag", "image"].includes(one.kind)).map((one) => one.name);
  const rows = Object.entries(item.attributes ?? {})
    .filter(([name, value]) => !elsewhere.includes(name) && value !== false && valueInWords(value) !== "–");
  if (flagsOf(item).length) rows.push(["Is", flagsOf(item)]);
  return rows.length > 0 && h("dl", { class: "facts" }, rows.map(([name, value]) => [
    h("dt", {}, columnInWords(name)),
    h("dd", {}, Array.isArray(value) ? value.map((one) => h("span", { class: "tag" }, one)) : valueInWords(value)),
  ]));
}

/** One's rating, or until there is one what the model expects, which follows every rating. */
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
      if (!aborted(error)) reason(error); // a prediction is no more than a help
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
    state.on("settled", follow, { signal });
  }
  return h("div", { class: "yours" }, control, details);
}

function distribution(ratings) {
  if (!state.model.rated) return h("section", {}, h("h3", {}, `Chosen by ${counted(ratings.count, "person", "people")}`));
  if (!ratings.count) return h("section", {}, h("h3", {}, "Ratings"), h("p", { class: "muted" }, "No ratings yet."));
  const most = Math.max(...ratings.distribution.map((one) => one.count));
  const words = (one) => `${ratingInWords(one.rating)}: ${count(one.count)}`;
  return h("section", {},
    h("h3", {}, counted(ratings.count, "rating"), h("span", { class: "muted" }, `, ${oneDigit(ratings.mean)} on average`)),
    h("ol", { class: "histogram" }, ratings.distribution.map((one) => h("li", { title: words(one) },
      h("span", { class: "unseen" }, words(one)),
      h("span", { class: "column", "aria-hidden": "true", style: { "--height": `${(one.count / most) * 100}%` } }),
      h("span", { class: "tick", "aria-hidden": "true" }, one.rating)))));
}

function similar(items) {
  return items.length > 0 && h("section", {}, h("h3", {}, "Similar"),
    h("ul", { class: "similar" }, items.map((item) => h("li", { "data-item": keyOf(item.id) },
      h("div", { class: "cover-frame", onclick: () => openItem(item.id) }, cover(item)),
      button({ class: "title", onclick: () => openItem(item.id) }, titleParts(item)),
      h("span", { class: "likeness", style: { "--share": `${Math.max(0, item.similarity) * 100}%` } },
        h("span", { class: "unseen" }, `likeness ${twoDigits(item.similarity)}`)),
      ratingControl(item)))));
}
