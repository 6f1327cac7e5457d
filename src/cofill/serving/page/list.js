// The list that follows every rating: rows glide to their new places and say how far they came.

import { aborted, api, keyOf } from "./api.js";
import { cover } from "./cover.js";
import { announce, button, fill, freshId, h, rearrange } from "./dom.js";
import { filterBar } from "./filter.js";
import { openItem } from "./route.js";
import { ratingControl } from "./stars.js";
import { state } from "./state.js";
import { failure, nothing, skeletons } from "./status.js";
import { reasonInWords, showWhy } from "./why.js";
import { attributesLine, counted, everybodyInWords, oneDigit, signedShort, titleOf, titleParts, worded } from "./words.js";

const PAGE = 12;
const MOST = 96;

/** One recommended item; it lives as long as the item stays in the list. */
class Row {
  constructor(item) {
    this.item = item;
    this.rank = h("span", { class: "rank-number" });
    this.moved = h("span", {});
    this.control = ratingControl(item, { captioned: true });
    this.delta = h("span", {});
    this.control.querySelector(".value")?.after(this.delta);
    this.raters = h("span", { class: "raters" });
    this.reason = h("span", { class: "reason-text" });
    this.panel = h("div", { class: "row-why", id: freshId("why"), hidden: true });
    this.why = button({
      class: "link", "aria-expanded": "false", "aria-controls": this.panel.id, "aria-label": `Why ${titleOf(item)}`,
      onclick: () => this.toggle(),
    }, "Why?");
    const open = () => openItem(item.id);
    this.element = h("li", { class: "row" },
      h("div", { class: "rank" }, this.rank, this.moved),
      h("div", { class: "cover-frame", onclick: open }, cover(item)),
      h("div", { class: "what" },
        h("h3", {}, button({ class: "title", onclick: open }, titleParts(item))),
        h("p", { class: "attributes" }, h("span", {}, attributesLine(item)), this.raters),
        h("p", { class: "reason" }, this.reason, " ", this.why)),
      h("div", { class: "give" }, this.control),
      this.panel);
  }

  toggle() {
    this.panel.hidden = !this.panel.hidden;
    this.why.setAttribute("aria-expanded", String(!this.panel.hidden));
    this.explain();
  }

  explain() {
    if (this.panel.hidden) fill(this.panel);
    else showWhy(this.panel, this.item, this.item.why.by);
  }

  /** `before` is the place it had in the list, -1 if it is new, and its own in a list with nothing to compare with. */
  update(item, place, before) {
    const change = before < 0 || item.rating === null ? 0 : item.rating - this.item.rating;
    this.item = item;
    this.rank.textContent = String(place + 1);
    this.raters.textContent = everybodyInWords(item);
    const [kind, sign, words] = before < 0 ? ["new", "new", "new in the list"]
      : before > place ? ["up", `▲ ${before - place}`, `up ${counted(before - place, "place")}`]
        : before < place ? ["down", `▼ ${place - before}`, `down ${counted(place - before, "place")}`] : ["same", "", ""];
    this.moved.className = `moved ${kind}`;
    fill(this.moved, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "unseen" }, words));
    this.delta.className = `delta ${change < 0 ? "down" : "up"}`;
    this.delta.textContent = Math.abs(change) >= 0.05 ? signedShort(change) : "";
    this.control.predict(item.rating);
    this.reason.textContent = reasonInWords(item);
    this.explain();
  }
}

export function recommendationList() {
  const title = h("h2", { id: "recommended-title" });
  const note = h("p", { class: "note" });
  const list = h("ol", { class: "rows", "aria-labelledby": "recommended-title" });
  const under = h("div", { class: "under" });
  const more = button({
    class: "quiet",
    onclick: () => {
      wanted = Math.min(MOST, wanted + PAGE);
      refresh();
    },
  }, "Show more");
  const filter = filterBar();
  const element = h("section", { class: "recommended", "aria-labelledby": "recommended-title" },
    h("div", { class: "heading" }, title, filter.button), note, rankingBar(), filter.element, list, under);

  let rows = new Map();
  let wanted = PAGE;
  let fresh = true; // nothing to compare with: the first list, or that of somebody else
  let asked = null;

  async function refresh() {
    asked?.abort();
    const mine = (asked = new AbortController());
    element.setAttribute("aria-busy", "true");
    const known = state.other !== null || state.ratings.size > 0 || state.about !== null;
    describe(known);
    if (rows.size === 0) fill(under, skeletons(6, "row"));
    try {
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
    fresh = true;
    fill(list);
  }

  function show(items) {
    const before = [...rows.keys()];
    rows = new Map(items.map((item) => [keyOf(item.id), rows.get(keyOf(item.id)) ?? new Row(item)]));
    items.forEach((item, place) => {
      const key = keyOf(item.id);
      rows.get(key).update(item, place, fresh ? place : before.indexOf(key));
    });
    rearrange(list, [...rows.values()].map((row) => row.element));
    fill(under, items.length === 0 ? emptyWords() : items.length >= wanted && wanted < MOST && more);
    if (!fresh && items.length > 0) {
      const predicted = items[0].rating === null ? "" : `, ${oneDigit(items[0].rating)} predicted`;
      const added = items.filter((item) => !before.includes(keyOf(item.id))).length;
      announce(`The list has changed. First is ${titleOf(items[0])}${predicted}. ${added} new.`);
    }
    fresh = false;
    state.recommended = items;
    state.tell("recommended");
  }

  function describe(known) {
    const n = state.ratings.size;
    const described = n === 0 && state.about !== null;
    const filtered = Object.keys(state.where).length ? ", filtered" : "";
    title.textContent = !known ? "To begin with" : `For ${state.other === null ? "you" : `user ${keyOf(state.other)}`}`;
    note.textContent = described ? `From what you said about yourself${filtered}. Every rating moves the list.`
      : !known ? `What most people like. ${worded("Rate", "Choose")} something, and watch this list follow.`
        : `From ${counted(n, worded("rating", "choice"))}${filtered}. Every further one moves the list.`;
  }

  const emptyWords = () => (Object.keys(state.where).length
    ? nothing("Nothing fits this filter.", "Take a condition away, and there will be more.")
    : nothing("Nothing left to recommend.", "Everything there is has been rated."));

  state.on("settled", refresh);
  state.on("person", () => {
    clear();
    wanted = PAGE;
    refresh();
  });
  state.on("where ranking", () => {
    fresh = true;
    refresh();
  });
  return { element, refresh };
}

const WAYS = { list: "choose", rating: "rate highest" };

/** What the list is ranked by, and how varied it is. */
function rankingBar() {
  const rank = (change) => {
    Object.assign(state, change);
    state.tell("ranking");
  };
  const group = h("div", { class: "ways", role: "group", "aria-label": "Ranked by" });
  const show = () => {
    group.hidden = !state.model.rated; // of interactions there are no ratings to rank by
    for (const one of group.children) {
      one.textContent = `What ${state.other === null ? "I" : "they"} would ${WAYS[one.dataset.by]}`;
      one.setAttribute("aria-pressed", String(state.by === one.dataset.by));
    }
  };
  fill(group, Object.keys(WAYS).map((by) => button({ "data-by": by, onclick: () => rank({ by }) })));
  state.on("ranking person model", show);
  show();
  return h("div", { class: "ranking" }, group, h("label", { class: "range muted small" }, "Variety", h("input", {
    type: "range", min: 0, max: 0.9, step: 0.1, value: state.diversity, // at 1 it would not count who is looking
    onchange: ({ target }) => rank({ diversity: target.valueAsNumber }),
  })));
}
