// The first screen: well known, diverse things to rate. What is rated stays in its place until others are asked for.

import { api, keyOf } from "./api.js";
import { announce, fill, h } from "./dom.js";
import { glide } from "./glide.js";
import { recall, remember } from "./memory.js";
import { openItem } from "./route.js";
import { ratingControl } from "./stars.js";
import { state } from "./state.js";
import { failure, nothing, skeletons } from "./status.js";
import { attributesLine, hueOf, titleOf, titleParts, worded } from "./words.js";

const SHOWN = 6;
const ASKED = 60;

/** @returns {HTMLElement} */
export function starters() {
  const cards = h("ul", { class: "cards" });
  const under = h("div", {});
  const others = h("button", {
    type: "button", class: "quiet",
    onclick: () => {
      deal();
      announce(`${cards.children.length} others to rate.`);
    },
  }, "Show me others");
  const element = h("section", { class: "starters", "aria-labelledby": "starters-title" },
    h("div", { class: "heading" }, h("h2", { id: "starters-title" }, worded("Rate what you know", "Choose what you know")), others),
    h("p", { class: "note" }, "Three are enough to begin with."), cards, under);

  /** @type {import("./api.js").Item[]} */
  let all = [];
  let next = 0;
  let skipped = new Set();

  /** The next that is neither rated nor unknown to them; round again when all have been seen. */
  function draw() {
    for (let tried = 0; tried < all.length; tried += 1) {
      const item = all[next % all.length];
      next += 1;
      const key = keyOf(item.id);
      const onTable = [...cards.children].some((card) => card.dataset.item === key);
      if (state.ratingOf(item.id) === null && !skipped.has(key) && !onTable) return item;
    }
    return null;
  }

  function deal() {
    const hand = [];
    for (let i = 0; i < SHOWN; i += 1) {
      const item = draw();
      if (item && !hand.includes(item)) hand.push(item);
    }
    fill(cards, hand.map(card));
    for (const one of cards.children) one.classList.add("dealt");
    fill(under, hand.length ? null : nothing("That was all of them.", "Search for anything else you know."));
  }

  /** @param {import("./api.js").Item} item @param {Element} old */
  function skip(item, old) {
    skipped.add(keyOf(item.id));
    remember("skipped", [...skipped]);
    const instead = draw();
    glide(cards, () => {
      if (instead) old.replaceWith(card(instead));
      else old.remove();
    });
    if (instead) {
      const now = [...cards.children].find((one) => one.dataset.item === keyOf(instead.id));
      now?.querySelector(".skip-it")?.focus({ preventScroll: true });
      announce(`Instead: ${titleOf(instead)}`);
    } else if (cards.children.length === 0) {
      deal();
    }
  }

  /** @param {import("./api.js").Item} item */
  function card(item) {
    const element = h("li", { class: "card", "data-item": keyOf(item.id), style: { "--hue": hueOf(item) } },
      h("h3", {}, h("button", { type: "button", class: "title", onclick: () => openItem(item.id) }, titleParts(item))),
      h("p", { class: "attributes" }, attributesLine(item)),
      h("div", { class: "card-foot" }, ratingControl(item),
        h("button", {
          type: "button", class: "skip-it link", "aria-label": `Not seen: ${titleOf(item)}`, onclick: () => skip(item, element),
        }, "Not seen")));
    return element;
  }

  async function load() {
    fill(under, null);
    fill(cards, skeletons(SHOWN, "card"));
    try {
      all = (await api.starters(ASKED)).items;
      restart();
    } catch (error) {
      fill(cards);
      fill(under, failure(error, load));
    }
  }

  function restart() {
    skipped = new Set(recall("skipped") ?? []);
    next = 0;
    fill(cards);
    deal();
  }

  state.on("person", () => {
    element.hidden = state.other !== null; // they were not asked
    if (all.length) restart();
  });
  load();
  return element;
}
