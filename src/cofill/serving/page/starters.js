// The first screen: well known, diverse things to rate. What is rated makes room for the next.

import { api, keyOf } from "./api.js";
import { cover } from "./cover.js";
import { announce, fill, h } from "./dom.js";
import { glide } from "./glide.js";
import { recall, remember } from "./memory.js";
import { openItem } from "./route.js";
import { ratingControl } from "./stars.js";
import { state } from "./state.js";
import { failure, nothing, skeletons } from "./status.js";
import { titleOf, titleParts, worded } from "./words.js";

const SHOWN = 6;
const ASKED = 60;
const A_LOOK = 900; // ms that a rated card stays: long enough to see what was given, and to change one's mind

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
  /** @type {Map<string, number>} timers of rated cards, by item */
  const leaving = new Map();

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

  /** @param {Element} old @param {string} focus what of the next card takes the focus, if the old one had it */
  function replace(old, focus) {
    const focused = old.contains(document.activeElement);
    const instead = draw();
    const now = instead && card(instead);
    glide(cards, () => (now ? old.replaceWith(now) : old.remove()));
    now?.classList.add("dealt");
    if (focused) (now ?? cards.firstElementChild)?.querySelector(focus)?.focus({ preventScroll: true });
    if (focused && instead) announce(`Instead: ${titleOf(instead)}`);
    if (cards.children.length === 0) deal();
  }

  /** @param {import("./api.js").Item} item @param {Element} old */
  function skip(item, old) {
    skipped.add(keyOf(item.id));
    remember("skipped", [...skipped]);
    replace(old, ".skip-it");
  }

  /** Cards whose rating the server has, given here or anywhere else, go after a look. */
  function sweep() {
    for (const one of cards.children) {
      const key = one.dataset.item ?? "";
      clearTimeout(leaving.get(key));
      leaving.delete(key);
      if (!state.ratings.has(key)) continue;
      leaving.set(key, setTimeout(() => {
        leaving.delete(key);
        if (state.ratings.has(key) && one.isConnected) replace(one, "rating-control");
      }, A_LOOK));
    }
  }

  /** @param {import("./api.js").Item} item */
  function card(item) {
    const open = () => openItem(item.id);
    const element = h("li", { class: "card", "data-item": keyOf(item.id) },
      h("div", { class: "cover-frame", onclick: open }, cover(item, { titled: true })),
      h("h3", {}, h("button", { type: "button", class: "title", onclick: open }, titleParts(item))),
      h("div", { class: "card-foot" }, ratingControl(item),
        h("button", {
          type: "button", class: "skip-it link", "aria-label": `Don’t know it: ${titleOf(item)}`, onclick: () => skip(item, element),
        }, "Don’t know it")));
    return element;
  }

  async function load() {
    fill(under, null);
    fill(cards, skeletons(SHOWN, "card").map((one) => h("li", {}, one)));
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
  state.on("settled", sweep);
  load();
  return element;
}
