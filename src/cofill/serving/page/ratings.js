// What somebody has rated, the newest first: to look at, to change, to take back.

import { keyOf } from "./api.js";
import { fill, h } from "./dom.js";
import { glide } from "./glide.js";
import { openItem } from "./route.js";
import { ratingControl } from "./stars.js";
import { state } from "./state.js";
import { count, titleParts, worded } from "./words.js";

const SHOWN = 8;

/** @returns {HTMLElement} */
export function ratingsList() {
  const title = h("h2", { id: "ratings-title" });
  const list = h("ul", { class: "rated-list", "aria-labelledby": "ratings-title" });
  const more = h("button", { type: "button", class: "quiet", onclick: () => { all = true; draw(); } });
  const element = h("section", { class: "ratings", "aria-labelledby": "ratings-title" },
    h("div", { class: "heading" }, title), list, more);
  let all = false;
  /** @type {Map<string, HTMLElement>} */
  let rows = new Map();

  /** @param {import("./state.js").Rating} rating */
  function row(rating) {
    const item = { id: rating.item, title: rating.title };
    return h("li", {},
      h("button", { type: "button", class: "title", onclick: () => openItem(item.id) }, titleParts(item)), ratingControl(item));
  }

  function draw() {
    const ratings = [...state.ratings.values()].reverse();
    const shown = all ? ratings : ratings.slice(0, SHOWN);
    const focused = [...list.children].findIndex((child) => child.contains(document.activeElement));
    const now = new Map(shown.map((rating) => [keyOf(rating.item), rows.get(keyOf(rating.item)) ?? row(rating)]));
    glide(list, () => list.replaceChildren(...now.values()));
    rows = now;
    if (focused >= 0 && !list.contains(document.activeElement)) {
      list.children[Math.min(focused, list.children.length - 1)]?.querySelector("rating-control")?.focus({ preventScroll: true });
    }
    element.hidden = ratings.length === 0;
    fill(title, state.other === null ? "Your " : "Their ", worded("ratings ", "choices "),
      h("span", { class: "tally" }, count(ratings.length)));
    more.hidden = shown.length === ratings.length;
    more.textContent = `Show all ${count(ratings.length)}`;
  }

  for (const name of ["rated", "corrected"]) state.on(name, draw);
  state.on("person", () => {
    all = false;
    rows = new Map();
    draw();
  });
  draw();
  return element;
}
