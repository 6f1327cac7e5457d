// Stars: what somebody gave an item, or gives it here and now. Until then they show what the model predicts.
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
  /** @type {number|null} */
  #predicted = null;
  #captioned = false; // whether it says in words what the stars are
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

  /** @param {import("./api.js").Item} item @param {{byPointer?: boolean, captioned?: boolean}} how */
  setUp(item, { byPointer = false, captioned = false }) {
    this.item = item;
    this.#captioned = captioned;
    const { low, high } = state.model.scale;
    if (!state.model.rated) {
      this.append(this.#toggle = h(byPointer ? "span" : "button", {
        class: "chip", ...(byPointer ? {} : { type: "button", "aria-label": `You chose ${titleOf(item)}` }),
        onclick: () => this.#say(this.rating === null ? Math.min(1, high) : null),
      }));
      this.#show();
      return this;
    }
    this.#slider = h("span", {
      class: `scale ${starred() ? "stars" : "bar"}`, style: { "--count": high },
      ...(byPointer ? {} : {
        role: "slider", "aria-label": `Your rating of ${titleOf(item)}`, "aria-valuemin": low, "aria-valuemax": high, tabindex: 0,
      }),
    });
    this.#value = h("span", { class: "value", "aria-hidden": "true" });
    this.#clear = h(byPointer ? "span" : "button", {
      class: "clear", title: "Take back", onclick: () => this.#say(null),
      ...(byPointer ? {} : { type: "button", "aria-label": `Take back your rating of ${titleOf(item)}` }),
    }, "×");
    this.classList.toggle("captioned", captioned);
    this.append(this.#slider, h("span", { class: "caption" }, this.#value, this.#clear));
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

  /** What the model expects, shown until there is a rating. @param {number|null} value */
  predict(value) {
    this.#predicted = value;
    this.#show();
  }

  #show() {
    const rating = this.rating;
    this.classList.toggle("rated", rating !== null);
    this.classList.toggle("meant", this.#meant !== null);
    if (this.#toggle) {
      this.#toggle.setAttribute("aria-pressed", String(rating !== null)); // its look follows that
      this.#toggle.textContent = rating === null ? "+ Mine" : "✓ Mine";
      return;
    }
    const shown = rating ?? this.#predicted;
    const predicted = this.#predicted === null ? "" : `, ${ratingInWords(Number(this.#predicted.toFixed(1)))} predicted`;
    this.#slider.style.setProperty("--full", shown === null ? "0%" : part(shown));
    if (this.#slider.hasAttribute("role")) {
      this.#slider.setAttribute("aria-valuenow", String(rating ?? state.model.scale.low));
      this.#slider.setAttribute("aria-valuetext", rating === null ? `not rated${predicted}` : ratingInWords(rating));
    }
    this.#value.replaceChildren(...this.#words(rating));
  }

  /** @param {number|null} rating @returns {(Node|string)[]} */
  #words(rating) {
    if (rating !== null && !this.#captioned) return [String(rating)];
    if (rating !== null) return [this.#meant === null ? "you gave " : "you give ", h("b", {}, String(rating))];
    if (this.#predicted === null) return this.#captioned ? ["rate it"] : [];
    return [h("b", { class: "number" }, oneDigit(this.#predicted)), " predicted"];
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

/**
 * @param {import("./api.js").Item} item @param {{byPointer?: boolean, captioned?: boolean}} [how]
 * byPointer: for the pointer alone, where something around it is what the keyboard reaches; captioned: say in words what the stars are
 * @returns {RatingControl}
 */
export function ratingControl(item, how = {}) {
  return new RatingControl().setUp(item, how);
}
