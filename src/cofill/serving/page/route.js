// Where we are, in the address behind the #: a page, and the item that lies open upon it. Back goes back.

/** @typedef {{view: string, item: string|null}} Route */

/** @type {(() => void)[]} */
const listeners = [];
const changed = () => listeners.forEach((listener) => listener());

/** @returns {Route} */
export function route() {
  const found = /^#\/(\w*)(?:\?(.*))?$/s.exec(location.hash);
  return { view: found?.[1] || "home", item: found ? new URLSearchParams(found[2]).get("item") : null };
}

/** @param {string} view @param {string|null} item */
function address(view, item) {
  const path = view === "home" ? "#/" : `#/${view}`;
  return item === null ? path : `${path}?${new URLSearchParams({ item })}`;
}

/** How many items were opened one from the other: that many steps back lies the page under them. */
const depth = () => history.state?.depth ?? 0;

/** @param {import("./api.js").Id} id */
export function openItem(id) {
  const item = typeof id === "object" ? id.rawJSON : String(id);
  if (route().item === item) return;
  history.pushState({ depth: depth() + 1 }, "", address(route().view, item));
  changed();
}

export function closeItem() {
  if (route().item === null) return;
  if (depth() > 0) {
    history.go(-depth());
  } else {
    history.replaceState(null, "", address(route().view, null)); // it was in the address that we were opened with
    changed();
  }
}

/** @param {() => void} listener */
export function onRoute(listener) {
  listeners.push(listener);
}

addEventListener("popstate", changed);
