// What outlives the page: who we are, and what we said we have not seen. A browser that keeps nothing gets by without.

import { parseExactly } from "./api.js";

const PREFIX = "cofill.";
const here = new Map(); // what the browser would not keep

/** @param {string} name @returns {*} */
export function recall(name) {
  try {
    const text = here.has(name) ? null : localStorage.getItem(PREFIX + name);
    return text === null ? (here.get(name) ?? null) : parseExactly(text);
  } catch {
    return null;
  }
}

/** @param {string} name @param {*} value */
export function remember(name, value) {
  here.delete(name);
  try {
    if (value === null || value === undefined) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    here.set(name, value); // storage may be forbidden; then this lasts as long as the page
  }
}

const tabs = new BroadcastChannel("cofill");

/** All tabs are one person. Say who that is, and that they have rated or changed. @param {import("./api.js").Id|null} me */
export function tellOtherTabs(me) {
  tabs.postMessage(JSON.stringify(me));
}

/** @param {(me: import("./api.js").Id|null) => void} listener */
export function whenOtherTabTells(listener) {
  tabs.addEventListener("message", ({ data }) => listener(parseExactly(data)));
}
