// What stands where content is not: on its way, nothing there, or gone wrong with a way to try again.

import { aborted, connection, Problem } from "./api.js";
import { fill, h, inFront } from "./dom.js";

/** Grey shapes of what is coming. @param {number} n @param {string} kind a class that has the shape */
export function skeletons(n, kind) {
  return Array.from({ length: n }, () => h("div", { class: `skeleton ${kind}`, "aria-hidden": "true" }));
}

/** @param {string} title @param {...import("./dom.js").Child} more */
export function nothing(title, ...more) {
  return h("div", { class: "box empty" }, h("p", { class: "box-title" }, title), more.length ? h("p", {}, more) : null);
}

/** @param {unknown} error @param {() => void} again */
export function failure(error, again) {
  if (!(error instanceof Problem)) console.error(error);
  return h("div", { class: "box failure", role: "alert" },
    h("p", { class: "box-title" }, "This did not work."),
    h("p", {}, reason(error)),
    h("button", { type: "button", class: "quiet", onclick: again }, "Try again"));
}

/** @param {unknown} error */
export function reason(error) {
  return error instanceof Problem ? error.message : "Something on this page went wrong; reloading it may help.";
}

const toasts = /** @type {HTMLElement} */ (document.getElementById("toasts"));

/**
 * A short word that goes by itself, with something to undo or repeat.
 * @param {string} text @param {{label: string, act: () => void}|null} [action]
 */
export function toast(text, action = null) {
  const element = h("div", { class: "toast" }, h("span", {}, text));
  const close = () => element.remove();
  if (action) {
    element.append(h("button", {
      type: "button",
      onclick: () => {
        close();
        action.act();
      },
    }, action.label));
  }
  inFront(toasts).replaceChildren(element);
  let timer = setTimeout(close, 5000);
  element.addEventListener("pointerenter", () => clearTimeout(timer));
  element.addEventListener("focusin", () => clearTimeout(timer));
  for (const name of ["pointerleave", "focusout"]) {
    element.addEventListener(name, () => (timer = setTimeout(close, 3000)));
  }
}

export function clearToasts() {
  toasts.replaceChildren();
}

/** A line at the top while the server is out of reach. @param {() => void} again when it is back */
export function watchConnection(again) {
  const place = /** @type {HTMLElement} */ (document.getElementById("notices"));
  let timer = 0;
  const knock = async () => {
    clearTimeout(timer);
    try {
      await fetch("health", { cache: "no-store" });
      connection.dispatchEvent(new Event("reached"));
      again();
    } catch {
      timer = setTimeout(knock, 5000);
    }
  };
  connection.addEventListener("unreached", () => {
    if (place.querySelector(".offline")) return;
    const why = navigator.onLine ? "The server does not answer. Trying again…" : "You are offline. What you see may be old.";
    place.append(h("p", { class: "notice offline", role: "alert" }, why,
      h("button", { type: "button", onclick: knock }, "Try now")));
    timer = setTimeout(knock, 5000);
  });
  connection.addEventListener("reached", () => {
    clearTimeout(timer);
    place.querySelector(".offline")?.remove();
  });
  addEventListener("online", knock);
  addEventListener("offline", () => connection.dispatchEvent(new Event("unreached")));
}

/** @type {WeakMap<Element, symbol>} the latest that was asked for each place */
const latest = new WeakMap();

/**
 * Fill an element with what a promise brings. What it had stays until then; if it was empty, skeletons come first.
 * @template T @param {Element} place @param {() => Promise<T>} bring @param {(value: T) => import("./dom.js").Child} show
 * @param {Node[]} [meanwhile]
 */
export async function loading(place, bring, show, meanwhile = []) {
  const mine = Symbol("request");
  latest.set(place, mine);
  if (place.children.length === 0) fill(place, meanwhile);
  place.setAttribute("aria-busy", "true");
  try {
    const value = await bring();
    if (latest.get(place) === mine) fill(place, show(value));
  } catch (error) {
    if (latest.get(place) !== mine || aborted(error)) return;
    fill(place, failure(error, () => {
      fill(place);
      loading(place, bring, show, meanwhile);
    }));
  } finally {
    if (latest.get(place) === mine) place.removeAttribute("aria-busy");
  }
}
