// What to rate first, well known and diverse, where what is rated makes room for the next; and what was rated.

import { api, keyOf } from "./api.js";
import { cover } from "./cover.js";
import { announce, button, fill, h, rearrange } from "./dom.js";
import { openItem } from "./route.js";
import { ratingControl } from "./stars.js";
import { recall, remember, state } from "./state.js";
import { failure, nothing, skeletons } from "./status.js";
import { count, titleOf, titleParts, worded } from "./words.js";

const CARDS = 6;
const ASKED = 60;
const A_LOOK = 900; // ms that a rated card stays: long enough to see what was given, and to change one's mind
const RATINGS = 8;

export function starters() {
  const cards = h("ul", { class: "cards" });
  const under = h("div", {});
  const others = button({
    class: "quiet",
    onclick: () => {
      deal();
      announce(`${cards.children.length} others to rate.`);
    },
  }, "Show me others");
  const element = h("section", { class: "starters", "aria-labelledby": "starters-title" },
    h("div", { class: "heading" },
      h("h2", { id: "starters-title" }, worded("Rate what you know", "Choose what you know")), others),
    h("p", { class: "note" }, "Three are enough to begin with."), cards, under);

  let all = [];
  let next = 0;
  let skipped = new Set();
  let leaving = []; // timers of rated cards

  /** The next that is neither rated nor unknown to them nor on the table; round again when all have been seen. */
  function draw(table) {
    for (let tried = 0; tried < all.length; tried += 1) {
      const item = all[next % all.length];
      next += 1;
      const key = keyOf(item.id);
      if (!state.ratings.has(key) && !skipped.has(key) && !table.some((one) => one.dataset.item === key)) return card(item);
    }
    return null;
  }

  function deal() {
    const hand = [];
    while (hand.length < CARDS) {
      const one = draw([...cards.children, ...hand]) ?? draw(hand);
      if (one === null) break;
      hand.push(one);
    }
    fill(cards, hand);
    fill(under, hand.length === 0 && nothing("That was all of them.", "Search for anything else you know."));
  }

  /** `focus`: what of the next card takes the focus, if the old one had it. */
  function replace(old, focus) {
    const focused = old.contains(document.activeElement);
    const instead = draw([...cards.children]);
    rearrange(cards, [...cards.children].map((one) => (one === old ? instead : one)).filter(Boolean));
    if (focused) (instead ?? cards.firstElementChild)?.querySelector(focus).focus({ preventScroll: true });
    if (focused && instead) announce(`Instead: ${instead.querySelector("h3").textContent}`);
    if (cards.children.length === 0) deal();
  }

  function skip(item, old) {
    skipped.add(keyOf(item.id));
    remember("skipped", [...skipped]);
    replace(old, ".skip-it");
  }

  /** Cards whose rating the server has, given here or anywhere else, go after a look. */
  function sweep() {
    leaving.forEach((timer) => clearTimeout(timer));
    const rated = (one) => state.ratings.has(one.dataset.item);
    const leave = (one) => rated(one) && one.isConnected && replace(one, "rating-control input, rating-control .chip");
    leaving = [...cards.children].filter(rated).map((one) => setTimeout(() => leave(one), A_LOOK));
  }

  function card(item) {
    const open = () => openItem(item.id);
    const made = h("li", { class: "card dealt", "data-item": keyOf(item.id) },
      h("div", { class: "cover-frame", onclick: open }, cover(item, { titled: true })),
      h("h3", {}, button({ class: "title", onclick: open }, titleParts(item))),
      h("div", { class: "card-foot" }, ratingControl(item),
        button({
          class: "skip-it link", "aria-label": `Don’t know it: ${titleOf(item)}`, onclick: () => skip(item, made),
        }, "Don’t know it")));
    return made;
  }

  async function load() {
    fill(under);
    fill(cards, skeletons(CARDS, "card").map((one) => h("li", {}, one)));
    try {
      all = (await api.starters(ASKED)).items;
      restart();
    } catch (error) {
      fill(cards);
      fill(under, failure(error, load));
    }
  }

  function restart() {
    skipped = new Set(recall("skipped"));
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

/** What was rated, the newest first: to look at, to change, to take back. */
export function ratingsList() {
  const title = h("h2", { id: "ratings-title" });
  const list = h("ul", { class: "rated-list", "aria-labelledby": "ratings-title" });
  const more = button({ class: "quiet", onclick: () => draw(Infinity) });
  const element = h("section", { class: "ratings", "aria-labelledby": "ratings-title" }, title, list, more);
  let most = RATINGS;
  let rows = new Map();

  const row = (item) => h("li", {},
    button({ class: "title", onclick: () => openItem(item.id) }, titleParts(item)), ratingControl(item));

  function draw(shown = most) {
    most = shown;
    const ratings = [...state.ratings].reverse();
    rows = new Map(ratings.slice(0, most).map(([key, { item: id, title: name }]) =>
      [key, rows.get(key) ?? row({ id, title: name })]));
    rearrange(list, [...rows.values()]);
    element.hidden = ratings.length === 0;
    fill(title, state.other === null ? "Your " : "Their ", worded("ratings ", "choices "),
      h("span", { class: "tally" }, count(ratings.length)));
    more.hidden = rows.size === ratings.length;
    more.textContent = `Show all ${count(ratings.length)}`;
  }

  state.on("rated corrected", () => draw());
  state.on("person", () => {
    rows = new Map();
    draw(RATINGS);
  });
  draw();
  return element;
}
