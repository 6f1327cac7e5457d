// Where we are, in the address behind the #: a page, and the item that lies open upon it. Back goes back.

import { keyOf } from "./api.js";

const listeners = [];
const changed = () => listeners.forEach((listener) => listener());

/** The view and, or null, the open item. */
export function route() {
  const [, view, query] = /^#\/(\w*)(?:\?(.*))?$/s.exec(location.hash) ?? [];
  return { view: view || "home", item: new URLSearchParams(query).get("item") };
}

function address(item) {
  const { view } = route();
  const path = view === "home" ? "#/" : `#/${view}`;
  return item === null ? path : `${path}?${new URLSearchParams({ item })}`;
}

/** How many items were opened one from the other: that many steps back lies the page under them. */
const depth = () => history.state?.depth ?? 0;

export function openItem(id) {
  if (route().item === keyOf(id)) return;
  history.pushState({ depth: depth() + 1 }, "", address(keyOf(id)));
  changed();
}

export function closeItem() {
  if (route().item === null) return;
  if (depth() > 0) {
    history.go(-depth());
  } else {
    history.replaceState(null, "", address(null)); // it was in the address that we were opened with
    changed();
  }
}

export function onRoute(listener) {
  listeners.push(listener);
}

addEventListener("popstate", changed);
