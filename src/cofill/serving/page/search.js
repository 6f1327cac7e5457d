// Search with type-ahead: a combobox. Enter opens what is marked; with a pointer one can rate in the list itself.

import { aborted, api } from "./api.js";
import { cover } from "./cover.js";
import { announce, fill, h } from "./dom.js";
import { openItem } from "./route.js";
import { ratingControl } from "./stars.js";
import { reason } from "./status.js";
import { attributesLine, counted, titleOf, titleParts } from "./words.js";

const RESULTS = 8;
const PAUSE = 120; // ms between two letters that are one thought

/** @param {HTMLElement} place */
export function search(place) {
  const input = /** @type {HTMLInputElement} */ (h("input", {
    type: "search", role: "combobox", placeholder: "Search", "aria-label": "Search for something to rate",
    autocomplete: "off", spellcheck: "false", enterkeyhint: "search",
    "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": "search-results",
  }));
  const list = h("ul", { class: "results", id: "search-results", role: "listbox", "aria-label": "Found", hidden: true });
  place.append(input, h("kbd", { "aria-hidden": "true" }, "/"), list);

  /** @type {import("./api.js").Item[]} */
  let found = [];
  let marked = -1;
  let timer = 0;
  /** @type {AbortController|null} */
  let asked = null;

  async function ask() {
    asked?.abort();
    const query = input.value.trim();
    if (query === "") {
      close();
      return;
    }
    asked = new AbortController();
    try {
      found = (await api.items(query, RESULTS, asked.signal)).items;
      marked = found.length ? 0 : -1;
      fill(list, found.length ? found.map(option) : h("li", { class: "none" }, `Nothing is called “${query}”.`));
      open();
      announce(found.length ? `${counted(found.length, "result")}. ${titleOf(found[0])}` : "Nothing found.");
    } catch (error) {
      if (aborted(error)) return;
      found = [];
      fill(list, h("li", { class: "none" }, reason(error)));
      open();
    }
  }

  /** @param {import("./api.js").Item} item @param {number} place */
  function option(item, place) {
    return h("li", {
      role: "option", id: `search-${place}`, "aria-selected": "false",
      onpointermove: () => mark(place),
      onclick: (/** @type {Event} */ event) => {
        if (event.target instanceof Element && event.target.closest("rating-control")) return;
        choose(place);
      },
    },
    cover(item),
    h("span", { class: "found" },
      h("span", { class: "title" }, titleParts(item)), h("span", { class: "attributes" }, attributesLine(item))),
    h("span", { "aria-hidden": "true" }, ratingControl(item, { byPointer: true })));
  }

  function open() {
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark(marked);
  }

  function close() {
    asked?.abort();
    clearTimeout(timer);
    list.hidden = true;
    marked = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  /** @param {number} place */
  function mark(place) {
    marked = place;
    [...list.querySelectorAll("[role=option]")].forEach((one, i) => one.setAttribute("aria-selected", String(i === place)));
    if (place < 0) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", `search-${place}`);
    list.children[place]?.scrollIntoView({ block: "nearest" });
  }

  /** @param {number} place */
  function choose(place) {
    const item = found[place];
    if (!item) return;
    close();
    input.value = "";
    openItem(item.id);
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE);
  });
  input.addEventListener("focus", () => input.value.trim() && ask());
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && list.hidden) ask();
    else if (step && found.length) mark((marked + step + found.length) % found.length);
    else if (event.key === "Enter") choose(marked);
    else if (event.key === "Escape" && !list.hidden) close();
    else if (event.key === "Tab") return close();
    else return;
    event.preventDefault();
  });
  // A press in the list must not take the focus away from the words.
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  document.addEventListener("pointerdown", (event) => {
    if (event.target instanceof Node && !place.contains(event.target)) close();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input, textarea, dialog");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    input.focus();
  });
}
