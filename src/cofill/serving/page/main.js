// The page: a header that stays, three views that are made when first seen, and an item that may lie open on any.

import { keyDialog } from "./key.js";
import { fill, h } from "./dom.js";
import { homeView } from "./home.js";
import { itemDialog } from "./item.js";
import { mapView } from "./map.js";
import { modelView } from "./model.js";
import { person } from "./person.js";
import { onRoute, route } from "./route.js";
import { search } from "./search.js";
import { state } from "./state.js";
import { clearToasts, failure, skeletons, toast, watchConnection } from "./status.js";
import { ratingInWords, titleOf, worded } from "./words.js";

const VIEWS = { home: homeView, map: mapView, model: modelView };
const TITLES = { home: "For you", map: "Map", model: "Model" };

/** @param {string} id of an element of index.html */
const part = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const main = part("main");
/** @type {Map<string, HTMLElement>} */
const made = new Map();
/** @type {string|null} */
let current = null;
let starting = false;

/** @param {() => void} followItem */
function show(followItem) {
  const view = route().view in VIEWS ? route().view : "home";
  if (view !== current) {
    const first = current === null;
    current = view;
    if (!made.has(view)) made.set(view, VIEWS[view]());
    const element = /** @type {HTMLElement} */ (made.get(view));
    fill(main, element);
    document.title = `${TITLES[view]} · cofill`;
    for (const link of document.querySelectorAll("nav [data-view]")) {
      if (link.dataset.view === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (!first) {
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
    }
    element.dispatchEvent(new Event("shown"));
  }
  followItem();
}

function confirmRatings() {
  state.on("rated", ({ item, before, after }) => {
    const said = after === null ? worded(" is unrated again.", " is not chosen any more.")
      : worded(`: ${ratingInWords(after)}.`, " is chosen.");
    toast(`${titleOf(item)}${said}`, { label: "Undo", act: () => state.rate(item, before) });
  });
  state.on("model", () => toast("A newer model is served now."));
  state.on("failed", ({ item, value, error, ours }) => {
    const again = { label: "Try again", act: () => state.rate(item, value) };
    toast(`${titleOf(item)} was not ${worded("rated", "taken")}: ${error.message}`, ours ? again : null);
  });
  state.on("person", clearToasts); // what they would undo is not the next person's
}

async function start() {
  if (starting) return;
  starting = true;
  fill(main, h("div", { class: "home" },
    h("div", { class: "side" }, h("div", {}, skeletons(1, "head"), h("div", { class: "cards" }, skeletons(6, "card")))),
    h("div", {}, skeletons(1, "head"), skeletons(6, "row"))));
  try {
    await state.start();
  } catch (error) {
    fill(main, failure(error, start));
    return;
  } finally {
    starting = false;
  }
  search(part("search"));
  person(part("person"), part("notices"));
  confirmRatings();
  const followItem = itemDialog();
  onRoute(() => show(followItem));
  show(followItem);
}

watchConnection(() => (state.model === null ? start() : state.settle()));
part("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address behind the # says where we are
  main.focus();
});
keyDialog();
start();
