// The list that follows every rating: rows glide to their new places and say how far they came.

import { aborted, api, keyOf } from "./api.js";
import { cover } from "./cover.js";
import { announce, fill, freshId, h } from "./dom.js";
import { filterBar } from "./filter.js";
import { count as countUp, glide } from "./glide.js";
import { openItem } from "./route.js";
import { ratingControl } from "./stars.js";
import { state } from "./state.js";
import { failure, nothing, skeletons } from "./status.js";
import { reasonInWords, showWhy } from "./why.js";
import { attributesLine, counted, everybodyInWords, oneDigit, signedShort, titleOf, titleParts, worded } from "./words.js";

const PAGE = 12;
const MOST = 96;

/** @typedef {import("./why.js").Recommended} Recommended */

/** One recommended item; it lives as long as the item stays in the list. */
class Row {
  /** @param {Recommended} item */
  constructor(item) {
    this.item = item;
    const panel = freshId("why");
    this.rank = h("span", { class: "rank-number" });
    this.moved = h("span", { class: "moved" });
    this.control = ratingControl(item, { captioned: true });
    this.delta = h("span", { class: "delta" });
    this.control.querySelector(".value")?.after(this.delta);
    this.raters = h("span", { class: "raters" });
    this.reason = h("span", { class: "reason-text" });
    this.panel = h("div", { class: "row-why", id: panel, hidden: true });
    this.button = h("button", {
      type: "button", class: "link", "aria-expanded": "false", "aria-controls": panel,
      "aria-label": `Why ${titleOf(item)}`, onclick: () => this.toggle(),
    }, "Why?");
    const open = () => openItem(item.id);
    this.element = h("li", { class: "row" },
      h("div", { class: "rank" }, this.rank, this.moved),
      h("div", { class: "cover-frame", onclick: open }, cover(item)),
      h("div", { class: "what" },
        h("h3", {}, h("button", { type: "button", class: "title", onclick: open }, titleParts(item))),
        h("p", { class: "attributes" }, h("span", {}, attributesLine(item)), this.raters),
        h("p", { class: "reason" }, this.reason, " ", this.button)),
      h("div", { class: "give" }, this.control),
      this.panel);
    this.explain();
  }

  toggle() {
    const open = this.panel.hidden;
    this.panel.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    this.explainInFull();
  }

  explain() {
    this.reason.textContent = this.item.why ? reasonInWords(this.item) : "";
    this.explainInFull();
  }

  explainInFull() {
    if (this.panel.hidden) this.panel.replaceChildren();
    else showWhy(this.panel, this.item, this.item.why?.by ?? state.by);
  }

  /**
   * @param {Recommended} item @param {number} place @param {number|null} before the place it had; null: it is new
   * @param {boolean} first nothing to compare with
   */
  update(item, place, before, first) {
    const was = this.item.rating;
    this.item = item;
    this.rank.textContent = String(place + 1);
    this.raters.textContent = everybodyInWords(item);
    this.#showMove(place, first ? place : before);
    if (item.rating !== null && (first || before !== null)) {
      const change = first ? 0 : item.rating - was;
      this.delta.textContent = Math.abs(change) >= 0.05 ? signedShort(change) : "";
      this.delta.className = `delta ${change < 0 ? "down" : "up"}`;
      countUp(first ? item.rating : was, item.rating, (now) => this.control.predict(now));
    } else {
      this.control.predict(item.rating);
    }
    this.explain();
  }

  /** @param {number} place @param {number|null} before */
  #showMove(place, before) {
    const by = before === null ? 0 : before - place;
    const [kind, sign, words] = before === null ? ["new", "new", "new in the list"]
      : by > 0 ? ["up", `▲ ${by}`, `up ${counted(by, "place")}`]
        : by < 0 ? ["down", `▼ ${-by}`, `down ${counted(-by, "place")}`] : ["same", "", ""];
    this.moved.className = `moved ${kind}`;
    fill(this.moved, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "unseen" }, words));
  }
}

/** @returns {{element: HTMLElement, refresh: () => void}} */
export function recommendationList() {
  const title = h("h2", { id: "recommended-title" });
  const note = h("p", { class: "note" });
  const list = h("ol", { class: "rows", "aria-labelledby": "recommended-title" });
  const under = h("div", { class: "under" });
  const more = h("button", {
    type: "button", class: "quiet",
    onclick: () => {
      wanted = Math.min(MOST, wanted + PAGE);
      refresh();
    },
  }, "Show more");
  const filter = filterBar();
  const element = h("section", { class: "recommended", "aria-labelledby": "recommended-title" },
    h("div", { class: "heading" }, title, filter.button), note, rankingBar(), filter.element, list, under);

  /** @type {Map<string, Row>} */
  let rows = new Map();
  let wanted = PAGE;
  let fresh = true; // nothing to compare with: the first list, or that of somebody else
  /** @type {AbortController|null} */
  let asked = null;

  async function refresh() {
    asked?.abort();
    const mine = (asked = new AbortController());
    element.setAttribute("aria-busy", "true");
    describe();
    if (rows.size === 0) fill(under, skeletons(6, "row"));
    try {
      const known = state.other !== null || state.ratings.size > 0 || state.about !== null;
      const who = known && state.user !== null ? { user: state.user } : { ratings: [] };
      const { by, diversity, where } = state;
      const answer = await api.recommendations({ ...who, n: wanted, by, diversity, where, why: true }, mine.signal);
      show(answer.items);
      state.noticeVersion(answer.model_version);
    } catch (error) {
      if (aborted(error) || (rows.size > 0 && error.status === 0)) return; // an old list is better than none
      clear();
      fill(under, failure(error, refresh));
    } finally {
      if (asked === mine) element.removeAttribute("aria-busy");
    }
  }

  function clear() {
    rows = new Map();
    list.replaceChildren();
  }

  /** @param {Recommended[]} items */
  function show(items) {
    const before = new Map([...rows.keys()].map((key, place) => [key, place]));
    const first = fresh;
    const lost = placeOfFocus();
    const now = new Map(items.map((item) => [keyOf(item.id), rows.get(keyOf(item.id)) ?? new Row(item)]));
    glide(list, () => {
      items.forEach((item, place) => {
        const key = keyOf(item.id);
        now.get(key)?.update(item, place, before.get(key) ?? null, first);
      });
      list.replaceChildren(...[...now.values()].map((row) => row.element));
    });
    rows = now;
    fresh = false;
    keepFocus(lost);
    fill(under, items.length === 0 ? emptyWords() : items.length >= wanted && wanted < MOST ? more : null);
    if (!first) say(items, before);
    state.recommended = items;
    state.tell("recommended");
  }

  function describe() {
    const n = state.ratings.size;
    const whose = state.other === null ? "you" : `user ${keyOf(state.other)}`;
    const stranger = n === 0 && state.other === null;
    const described = stranger && state.about !== null;
    const filtered = Object.keys(state.where).length ? ", filtered" : "";
    title.textContent = stranger && !described ? "To begin with" : `For ${whose}`;
    note.textContent = described ? `From what you said about yourself${filtered}. Every rating moves the list.`
      : stranger ? `What most people like. ${worded("Rate", "Choose")} something, and watch this list follow.`
        : `From ${counted(n, worded("rating", "choice"))}${filtered}. Every further one moves the list.`;
  }

  function emptyWords() {
    return Object.keys(state.where).length
      ? nothing("Nothing fits this filter.", "Take a condition away, and there will be more.")
      : nothing("Nothing left to recommend.", "Everything there is has been rated.");
  }

  /** The place of the row that has the focus, for its row may go. */
  function placeOfFocus() {
    return [...list.children].findIndex((child) => child.contains(document.activeElement));
  }

  /** @param {number} place */
  function keepFocus(place) {
    if (place < 0 || list.contains(document.activeElement)) return;
    const next = list.children[Math.min(place, list.children.length - 1)];
    next?.querySelector("rating-control")?.focus({ preventScroll: true });
  }

  /** @param {Recommended[]} items @param {Map<string, number>} before */
  function say(items, before) {
    if (items.length === 0) return;
    const added = items.filter((item) => !before.has(keyOf(item.id))).length;
    const predicted = items[0].rating === null ? "" : `, ${oneDigit(items[0].rating)} predicted`;
    announce(`The list has changed. First is ${titleOf(items[0])}${predicted}. ${added} new.`);
  }

  state.on("settled", refresh);
  state.on("person", () => {
    clear();
    fresh = true;
    wanted = PAGE;
    refresh();
  });
  for (const name of ["where", "ranking"]) {
    state.on(name, () => {
      fresh = true;
      refresh();
    });
  }
  return { element, refresh };
}

const WAYS = { list: "choose", rating: "rate highest" };

/** What the list is ranked by, and how varied it is. @returns {HTMLElement} */
function rankingBar() {
  const buttons = Object.keys(WAYS).map((by) => h("button", { type: "button", "data-by": by, onclick: () => rank({ by }) }));
  const group = h("div", { class: "ways", role: "group", "aria-label": "Ranked by" }, buttons);
  const variety = /** @type {HTMLInputElement} */ (h("input", {
    type: "range", min: 0, max: 0.9, step: 0.1, value: state.diversity, // at 1 it would not count who is looking
    onchange: () => rank({ diversity: variety.valueAsNumber }),
  }));
  const show = () => {
    group.hidden = !state.model.rated; // of interactions there are no ratings to rank by
    for (const button of buttons) {
      const by = button.dataset.by ?? "list";
      button.textContent = `What ${state.other === null ? "I" : "they"} would ${WAYS[by]}`;
      button.setAttribute("aria-pressed", String(state.by === by));
    }
  };
  for (const name of ["ranking", "person", "model"]) state.on(name, show);
  show();
  return h("div", { class: "ranking" }, group, h("label", { class: "range muted small" }, "Variety", variety));
}

/** @param {{by?: string, diversity?: number}} change */
function rank(change) {
  Object.assign(state, change);
  state.tell("ranking");
}
