// The page: a header that stays, views that are made when first seen, and an item that may lie open on any.

import { whenUnauthorized } from "./api.js";
import { fill, h, makeDialog } from "./dom.js";
import { itemDialog } from "./item.js";
import { recommendationList } from "./list.js";
import { mapView } from "./map.js";
import { modelView } from "./model.js";
import { ratingsList, starters } from "./rate.js";
import { onRoute, route } from "./route.js";
import { search } from "./search.js";
import { state } from "./state.js";
import { clearToasts, failure, loading, skeletons, toast, watchConnection } from "./status.js";
import { ratingInWords, titleOf, worded } from "./words.js";
import { aboutYou, person } from "./you.js";

const VIEWS = {
  home: ["For you", homeView], map: ["Map", mapView], model: ["Model", modelView], operate: ["Operate", operateView],
};

const part = (id) => document.getElementById(id);
const main = part("main");
const made = new Map();
let current = null;
let starting = false;

function show(followItem) {
  const view = route().view in VIEWS ? route().view : "home";
  if (view !== current) {
    const first = current === null;
    const [title, make] = VIEWS[view];
    current = view;
    if (!made.has(view)) made.set(view, make());
    fill(main, made.get(view));
    document.title = `${title} · cofill`;
    for (const link of document.querySelectorAll("nav [data-view]")) {
      if (link.dataset.view === view) link.hidden = false;
      if (link.dataset.view === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (!first) {
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
    }
    made.get(view).dispatchEvent(new Event("shown"));
  }
  followItem();
}

/** The first page: things to rate, the list that follows, and what was rated. */
function homeView() {
  const { element, refresh } = recommendationList();
  refresh();
  return h("div", { class: "home" },
    h("h1", { class: "unseen" }, "Recommendations"),
    h("div", { class: "side" }, starters(), ratingsList(), aboutYou()),
    element);
}

/** The operator's page, whose code visitors do not load. */
function operateView() {
  const place = h("div", {});
  const load = () => import("./operate.js");
  place.addEventListener("shown", () => loading(place, load, ({ operatorView }) => operatorView(), skeletons(3, "row")));
  return place;
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

/** Ask for the key of a server that is open to others. It is kept until the tab is closed. */
const askForKey = (refused) => new Promise((resolve) => {
  let given = null;
  const { dialog, body } = makeDialog("API key", "key-dialog", () => {
    dialog.remove();
    resolve(given);
  });
  const input = h("input", {
    type: "password", "aria-label": "API key", autocomplete: "off", required: true, autofocus: true,
  });
  const take = (event) => {
    event.preventDefault();
    given = input.value.trim();
    dialog.close();
  };
  fill(body, h("form", { onsubmit: take },
    h("h2", {}, "This server asks for a key"),
    refused ? h("p", { class: "wrong", role: "alert" }, "That key was not accepted. Check it, and try again.")
      : h("p", { class: "muted" },
        "The operator makes one with ", h("code", {}, "cofill keys"), ". It stays in this tab only."),
    h("div", { class: "line" }, input, h("button", { type: "submit", class: "primary" }, "Continue"))));
  dialog.showModal();
});

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

whenUnauthorized(askForKey);
watchConnection(() => (state.model === null ? start() : state.settle()));
part("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address behind the # says where we are
  main.focus();
});
start();
