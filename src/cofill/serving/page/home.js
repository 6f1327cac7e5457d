// The first page: things to rate, the list that follows, and what was rated.

import { aboutYou } from "./about.js";
import { h } from "./dom.js";
import { ratingsList } from "./ratings.js";
import { recommendationList } from "./recommendations.js";
import { starters } from "./starters.js";

/** @returns {HTMLElement} */
export function homeView() {
  const { element, refresh } = recommendationList();
  refresh();
  return h("div", { class: "home" },
    h("h1", { class: "unseen" }, "Recommendations"),
    h("div", { class: "side" }, starters(), ratingsList(), aboutYou()),
    element);
}
