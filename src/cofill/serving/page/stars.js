// Stars: those that somebody gave (or gives, here and now), and those that the model predicts.
//
// Any other scale is a bar instead, with the same hands: one slider for pointer, finger and keyboard.

import { h } from "./dom.js";
import { state } from "./state.js";
import { oneDigit, ratingInWords, starred, titleOf } from "./words.js";

const AFTER_KEYS = 600; // ms: somebody on the way from 3 to 5 stars does not mean 3½ and 4 as well
const CHANGES = ["rated", "corrected", "person"]; // of what is shown

/** @param {number} value @returns {string} how much of the stars (or of the bar) is full */
function part(value) {
  const { low, high } = state.model.scale;
  const share = starred() ? value / high : (value - low) / (high - low);
  return `${Math.max(0, Math.min(1, share)) * 100}%`;
}

/** @param {string} more a class */
function row(more) {
  return h("span", { class: `${starred() ? "stars" : "bar"} ${more}`, style: { "--count": state.model.scale.high } });
}

/** Predicted stars and their number. Call `.show(value)` for another. @param {number} value */
export function predictedStars(value) {
  const stars = row("predicted-stars");
  stars.setAttribute("aria-hidden", "true");
  const number = h("span", { class: "number" });
  const label = h("span", { class: "unseen" });
  const element = h("span", { class: "prediction" }, number, stars, label);
  /** @param {number} now */
  const show = (now) => {
    stars.style.setProperty("--full", part(now));
    number.textContent = oneDigit(now);
    label.textContent = starred() ? "stars predicted" : "predicted";
  };
  show(value);
  return Object.assign(element, { show });
}

/** What somebody may give, by the scale of the model. */
function ladder() {
  const { low, high, step } = state.model.scale;
  const rung = step ?? (starred() ? 0.5 : (high - low) / 20);
  /** @param {number} value */
  const nearest = (value) => {
    const rounded = low + Math.round((value - low) / rung) * rung;
    return Math.min(high, Math.max(low, Math.round(rounded * 1e6) / 1e6)); // 0.1 + 0.2 is 0.3 here
  };
  return {
    low,
    high,
    rung,
    nearest,
    middle: nearest((low + high) / 2),
    /** @param {number} share of the width, from the left */
    at: (share) => nearest(starred() ? Math.ceil((share * high) / rung) * rung : low + share * (high - low)),
  };
}

/** Stars to rate an item with, which follow its rating wherever else it is given. */
class RatingControl extends HTMLElement {
  /** @type {import("./api.js").Item} */
  item;
  /** @type {number|null} what is meant but not said yet */
  #meant = null;
  #timer = 0;
  /** @type {HTMLElement} */
  #slider;
  /** @type {HTMLElement} */
  #value;
  /** @type {HTMLElement} */
  #clear;
  /** @type {HTMLElement|null} in the place of stars, where there are no ratings: chosen or not */
  #toggle = null;
  #sync = () => this.#show();

  /** @param {import("./api.js").Item} item @param {boolean} byPointer leave it out of the order of tabs */
  setUp(item, byPointer) {
    this.item = item;
    const { low, high } = state.model.scale;
    if (!state.model.rated) {
      this.append(this.#toggle = h("button", {
        type: "button", class: "chip", "aria-label": `You chose ${titleOf(item)}`, tabindex: byPointer ? -1 : null,
        onclick: () => this.#say(this.rating === null ? Math.min(1, high) : null),
      }));
      this.#show();
      return this;
    }
    this.#slider = row("given-stars");
    const attributes = {
      role: "slider", "aria-label": `Your rating of ${titleOf(item)}`, "aria-valuemin": low, "aria-valuemax": high,
      tabindex: byPointer ? -1 : 0,
    };
    for (const [name, value] of Object.entries(attributes)) this.#slider.setAttribute(name, String(value));
    this.#value = h("span", { class: "value", "aria-hidden": "true" });
    this.#clear = h("button", {
      type: "button", class: "clear", "aria-label": `Take back your rating of ${titleOf(item)}`, title: "Take back",
      tabindex: byPointer ? -1 : null, onclick: () => this.#say(null),
    }, "×");
    this.append(this.#slider, this.#value, this.#clear);
    this.#listen();
    this.#show();
    return this;
  }

  connectedCallback() {
    for (const name of CHANGES) state.addEventListener(name, this.#sync);
    this.#show();
  }

  disconnectedCallback() {
    for (const name of CHANGES) state.removeEventListener(name, this.#sync);
  }

  /** @param {FocusOptions} [options] */
  focus(options) {
    (this.#toggle ?? this.#slider).focus(options);
  }

  get rating() {
    return this.#meant ?? state.ratingOf(this.item.id);
  }

  #show() {
    const rating = this.rating;
    this.classList.toggle("rated", rating !== null);
    this.classList.toggle("meant", this.#meant !== null);
    if (this.#toggle) {
      this.#toggle.setAttribute("aria-pressed", String(rating !== null));
      this.#toggle.textContent = rating === null ? "+ Mine" : "✓ Mine";
      return;
    }
    this.#slider.style.setProperty("--full", rating === null ? "0%" : part(rating));
    this.#slider.setAttribute("aria-valuenow", String(rating ?? state.model.scale.low));
    this.#slider.setAttribute("aria-valuetext", rating === null ? "not rated" : ratingInWords(rating));
    this.#value.textContent = rating === null ? "" : String(rating);
  }

  /** @param {number|null} rating */
  #say(rating) {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#meant = null;
    state.rate(this.item, rating);
    this.#show();
    if (rating === null) this.focus();
  }

  /** @param {number} rating */
  #mean(rating) {
    this.#meant = rating;
    this.#show();
  }

  #listen() {
    const slider = this.#slider;
    /** @param {PointerEvent} event */
    const under = (event) => {
      const { left, width } = slider.getBoundingClientRect();
      return ladder().at(Math.max(0.001, Math.min(1, (event.clientX - left) / width)));
    };
    slider.addEventListener("pointermove", (event) => this.#mean(under(event)));
    slider.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      slider.setPointerCapture(event.pointerId);
      this.#mean(under(event));
    });
    slider.addEventListener("pointerup", (event) => event.button === 0 && this.#say(under(event)));
    for (const name of ["pointerleave", "pointercancel"]) {
      slider.addEventListener(name, () => {
        if (this.#timer) return; // that was the keyboard's
        this.#meant = null;
        this.#show();
      });
    }
    slider.addEventListener("keydown", (event) => this.#key(event));
    slider.addEventListener("blur", () => this.#timer && this.#say(this.#meant));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Enter" && this.#timer) {
      event.preventDefault();
      this.#say(this.#meant);
      return;
    }
    if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      this.#say(null);
      return;
    }
    const wanted = this.#wanted(event.key);
    if (wanted === null) return;
    event.preventDefault();
    this.#mean(wanted);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#say(wanted), AFTER_KEYS);
  }

  /** @param {string} key @returns {number|null} */
  #wanted(key) {
    const { low, high, rung, nearest, middle } = ladder();
    const now = this.rating;
    const up = key === "ArrowRight" || key === "ArrowUp";
    if (up || key === "ArrowLeft" || key === "ArrowDown") return now === null ? middle : nearest(now + (up ? rung : -rung));
    if (key === "Home") return low;
    if (key === "End") return high;
    if (/^[0-9]$/.test(key) && Number(key) >= low && Number(key) <= high) return nearest(Number(key));
    return null;
  }
}

customElements.define("rating-control", RatingControl);

/** @param {import("./api.js").Item} item @param {{byPointer?: boolean}} [how] @returns {RatingControl} */
export function ratingControl(item, { byPointer = false } = {}) {
  return new RatingControl().setUp(item, byPointer);
}
