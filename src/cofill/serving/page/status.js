// What stands where content is not: on its way, nothing there, or gone wrong with a way to try again.

import { aborted, connection, Problem } from "./api.js";
import { button, fill, h, inFront } from "./dom.js";

const AGAIN = 5000; // ms between two looks for a server out of reach

/** Grey shapes of what is coming; `kind` is a class that has the shape. */
export const skeletons = (n, kind) =>
  Array.from({ length: n }, () => h("div", { class: `skeleton ${kind}`, "aria-hidden": "true" }));

export const nothing = (title, ...more) =>
  h("div", { class: "box empty" }, h("p", { class: "box-title" }, title), more.length > 0 && h("p", {}, more));

export const failure = (error, again) => h("div", { class: "box failure", role: "alert" },
  h("p", { class: "box-title" }, "This did not work."),
  h("p", {}, reason(error)),
  button({ class: "quiet", onclick: again }, "Try again"));

export function reason(error) {
  if (error instanceof Problem) return error.message;
  console.error(error);
  return "Something on this page went wrong; reloading it may help.";
}

const toasts = document.getElementById("toasts");

/** A short word that goes by itself, with `{label, act}` to undo or repeat. */
export function toast(text, action = null) {
  const act = () => {
    element.remove();
    action.act();
  };
  const element = h("div", { class: "toast" }, h("span", {}, text), action && button({ onclick: act }, action.label));
  inFront(toasts).replaceChildren(element);
  let timer = 0;
  const stay = () => clearTimeout(timer);
  const go = () => (timer = setTimeout(() => element.remove(), AGAIN));
  for (const name of ["pointerenter", "focusin"]) element.addEventListener(name, stay);
  for (const name of ["pointerleave", "focusout"]) element.addEventListener(name, go);
  go();
}

export const clearToasts = () => toasts.replaceChildren();

/** A line at the top while the server is out of reach; `again` when it is back. */
export function watchConnection(again) {
  const place = document.getElementById("notices");
  let timer = 0;
  const knock = async () => {
    clearTimeout(timer);
    try {
      await fetch("health", { cache: "no-store" });
      connection.dispatchEvent(new Event("reached"));
      again();
    } catch {
      timer = setTimeout(knock, AGAIN);
    }
  };
  connection.addEventListener("unreached", () => {
    if (place.querySelector(".offline")) return;
    const why = navigator.onLine ? "The server does not answer. Trying again…"
      : "You are offline. What you see may be old.";
    place.append(h("p", { class: "notice offline", role: "alert" }, why, button({ onclick: knock }, "Try now")));
    timer = setTimeout(knock, AGAIN);
  });
  connection.addEventListener("reached", () => {
    clearTimeout(timer);
    place.querySelector(".offline")?.remove();
  });
  addEventListener("online", knock);
  addEventListener("offline", () => connection.dispatchEvent(new Event("unreached")));
}

const latest = new WeakMap(); // what was asked last for each place

/** Fill an element with what a promise brings. What it had stays until then; if it was empty, `meanwhile` comes first. */
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
    fill(place, failure(error, () => loading(place, bring, show)));
  } finally {
    if (latest.get(place) === mine) place.removeAttribute("aria-busy");
  }
}
