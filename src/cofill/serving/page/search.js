// Search with type-ahead: a combobox. Enter opens what is marked.

import { aborted, api } from "./api.js";
import { cover } from "./cover.js";
import { announce, fill, h } from "./dom.js";
import { openItem } from "./route.js";
import { reason } from "./status.js";
import { attributesLine, counted, titleOf, titleParts } from "./words.js";

const RESULTS = 8;
const PAUSE = 120; // ms between two letters that are one thought

export function search(place) {
  const list = h("ul", {
    class: "results", id: "search-results", role: "listbox", "aria-label": "Found", hidden: true,
    onpointerdown: (event) => event.preventDefault(), // which must not take the focus away from the words
  });
  let found = [];
  let marked = -1;
  let timer = 0;
  let asked = null;
  const input = h("input", {
    type: "search", role: "combobox", placeholder: "Search", "aria-label": "Search for something to rate",
    autocomplete: "off", spellcheck: "false", enterkeyhint: "search",
    "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": "search-results",
    onkeydown: key, onblur: close, onfocus: ask,
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(ask, PAUSE);
    },
  });
  fill(place, input, h("kbd", { "aria-hidden": "true" }, "/"), list);

  async function ask() {
    const query = input.value.trim();
    if (query === "") return close();
    asked?.abort();
    asked = new AbortController();
    try {
      found = (await api.items(query, RESULTS, asked.signal)).items;
      show(found.length ? found.map(option) : h("li", { class: "none" }, `Nothing is called “${query}”.`));
      announce(found.length ? `${counted(found.length, "result")}. ${titleOf(found[0])}` : "Nothing found.");
    } catch (error) {
      if (aborted(error)) return;
      found = [];
      show(h("li", { class: "none" }, reason(error)));
    }
  }

  const option = (item, at) => h("li", {
    role: "option", id: `search-${at}`, "aria-selected": "false", onpointermove: () => mark(at), onclick: () => choose(at),
  }, cover(item), h("span", { class: "found" },
    h("span", { class: "title" }, titleParts(item)), h("span", { class: "attributes" }, attributesLine(item))));

  function show(results) {
    fill(list, results);
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark(found.length ? 0 : -1);
  }

  function close() {
    asked?.abort();
    clearTimeout(timer);
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    mark(-1);
  }

  function mark(at) {
    marked = at;
    [...list.children].forEach((one, i) => one.role === "option" && one.setAttribute("aria-selected", String(i === at)));
    if (at < 0) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", `search-${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  function choose(at) {
    if (!found[at]) return;
    close();
    input.value = "";
    openItem(found[at].id);
  }

  function key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.isComposing) return;
    if (step && list.hidden) ask();
    else if (step && found.length) mark((marked + step + found.length) % found.length);
    else if (event.key === "Enter") choose(marked);
    else if (event.key === "Escape" && !list.hidden) close();
    else return;
    event.preventDefault();
  }

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=range], [type=checkbox]), select, dialog");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    input.focus();
  });
}
