// What outlives the page: who we are, and what we said we have not seen. A browser that keeps nothing gets by without.

import { parseExactly } from "./api.js";

const PREFIX = "cofill.";
const here = new Map();

/** @param {string} name @returns {*} */
export function recall(name) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? (here.get(name) ?? null) : parseExactly(text);
  } catch {
    return here.get(name) ?? null;
  }
}

/** @param {string} name @param {*} value */
export function remember(name, value) {
  here.set(name, value);
  try {
    if (value === null || value === undefined) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Storage may be forbidden; then this lasts as long as the page.
  }
}
