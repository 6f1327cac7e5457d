// The page: a header that stays, three views that are made when first seen, and an item that may lie open on any.

import { aboutYou } from "./about.js";
import { whenUnauthorized } from "./api.js";
import { fill, h, makeDialog } from "./dom.js";
import { itemDialog } from "./item.js";
import { mapView } from "./map.js";
import { modelView } from "./model.js";
import { person } from "./person.js";
import { ratingsList } from "./ratings.js";
import { recommendationList } from "./recommendations.js";
import { onRoute, route } from "./route.js";
import { search } from "./search.js";
import { starters } from "./starters.js";
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

/** The first page: things to rate, the list that follows, and what was rated. @returns {HTMLElement} */
function homeView() {
  const { element, refresh } = recommendationList();
  refresh();
  return h("div", { class: "home" },
    h("h1", { class: "unseen" }, "Recommendations"),
    h("div", { class: "side" }, starters(), ratingsList(), aboutYou()),
    element);
}

/** The key that a server open to others asks for. It is kept until the tab is closed. */
function keyDialog() {
  whenUnauthorized((refused) => new Promise((resolve) => {
    /** @type {string|null} */
    let given = null;
    const { dialog, body } = makeDialog({
      label: "API key",
      className: "key-dialog",
      onclose: () => {
        dialog.remove();
        resolve(given);
      },
    });
    const input = /** @type {HTMLInputElement} */ (h("input", {
      type: "password", "aria-label": "API key", autocomplete: "off", required: true, autofocus: true,
    }));
    fill(body, h("form", {
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        given = input.value.trim();
        dialog.close();
      },
    },
    h("h2", {}, "This server asks for a key"),
    h("p", { class: refused ? "wrong" : "muted", role: refused ? "alert" : null }, refused
      ? "That key was not accepted. Check it, and try again."
      : ["The operator makes one with ", h("code", {}, "cofill keys"), ". It stays in this tab only."]),
    h("div", { class: "line" }, input, h("button", { type: "submit", class: "primary" }, "Continue"))));
    dialog.showModal();
  }));
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
