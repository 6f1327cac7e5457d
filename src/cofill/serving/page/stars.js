// Stars: what somebody gave an item, or gives it here and now. Until then they show what the model predicts.
//
// They are a range input of the browser with stars (on any other scale a bar) drawn under it; its lowest place is "not
// rated". Where there are no ratings, a button says whether the item is chosen.

import { button, h } from "./dom.js";
import { state } from "./state.js";
import { oneDigit, ratingInWords, starred, titleOf } from "./words.js";

const AFTER_KEYS = 600; // ms: from 3 to 5 stars one does not mean 3½ and 4 as well
const tidy = (value) => Math.round(value * 1e6) / 1e6; // 0.1 + 0.2 is 0.3 here

class RatingControl extends HTMLElement {
  #meant; // but not said yet; null: no rating
  #predicted = null;
  #timer = 0;
  #byKey = false;

  setUp(item, captioned) {
    this.item = item;
    this.captioned = captioned;
    const { low, high, step } = state.model.scale;
    if (!state.model.rated) {
      this.chosen = button({
        class: "chip", "aria-label": `You chose ${titleOf(item)}`,
        onclick: () => this.#say(this.rating === null ? Math.min(1, high) : null),
      });
      this.append(this.chosen);
      return this;
    }
    this.rung = step ?? (starred() ? 0.5 : (high - low) / 20);
    this.none = starred() ? 0 : low - this.rung;
    this.slider = h("input", {
      type: "range", min: this.none, max: high, step: this.rung, "aria-label": `Your rating of ${titleOf(item)}`,
      oninput: () => this.#mean(this.#given()),
      onchange: () => this.#changed(),
      onkeydown: (event) => this.#key(event),
      onpointerdown: () => (this.#byKey = false),
      onblur: () => this.#timer && this.#say(this.#given()),
    });
    this.scale = h("span", {
      class: `scale ${starred() ? "stars" : "bar"}`, style: { "--count": high, "--rung": this.rung / (high - this.none) },
      onpointermove: (event) => this.#hover(event),
      onpointerleave: ({ pointerType }) => this.#timer || pointerType === "touch" || this.#mean(undefined),
      onpointercancel: () => this.#mean(undefined), // it was to scroll
    }, this.slider);
    this.value = h("span", { class: "value", "aria-hidden": "true" });
    this.classList.toggle("captioned", captioned);
    const words = `Take back your rating of ${titleOf(item)}`;
    this.append(this.scale, h("span", { class: "caption" }, this.value,
      button({ class: "clear", title: "Take back", "aria-label": words, onclick: () => this.#say(null) }, "×")));
    return this;
  }

  connectedCallback() {
    this.show();
  }

  focus(options) {
    (this.chosen ?? this.slider).focus(options);
  }

  get rating() {
    return this.#meant === undefined ? state.ratingOf(this.item.id) : this.#meant;
  }

  /** What the model expects, shown until there is a rating. */
  predict(value) {
    this.#predicted = value;
    this.show();
  }

  show() {
    const rating = this.rating;
    this.classList.toggle("rated", rating !== null);
    this.classList.toggle("meant", this.#meant !== undefined);
    if (this.chosen) {
      this.chosen.setAttribute("aria-pressed", String(rating !== null));
      this.chosen.textContent = rating === null ? "+ Mine" : "✓ Mine";
      return;
    }
    const { high } = state.model.scale;
    const full = ((rating ?? this.#predicted ?? this.none) - this.none) / (high - this.none);
    this.scale.style.setProperty("--full", `${Math.max(0, Math.min(1, full)) * 100}%`);
    if (this.#meant === undefined) this.slider.value = rating ?? this.none;
    const predicted = this.#predicted === null ? "" : `, ${ratingInWords(Number(this.#predicted.toFixed(1)))} predicted`;
    this.slider.setAttribute("aria-valuetext", rating === null ? `not rated${predicted}` : ratingInWords(rating));
    this.value.replaceChildren(...this.#words(rating));
  }

  #words(rating) {
    if (rating !== null && !this.captioned) return [String(rating)];
    if (rating !== null) return [this.#meant === undefined ? "you gave " : "you give ", h("b", {}, String(rating))];
    if (this.#predicted === null) return this.captioned ? ["rate it"] : [];
    return [h("b", { class: "number" }, oneDigit(this.#predicted)), " predicted"];
  }

  /** What the slider stands at; null: not rated. */
  #given() {
    const value = tidy(Number(this.slider.value));
    return value <= tidy(this.none) ? null : Math.max(value, state.model.scale.low);
  }

  #mean(rating) {
    this.#meant = rating;
    this.show();
  }

  #hover({ clientX, buttons, pointerType }) {
    if (buttons || pointerType === "touch" || this.#timer) return;
    const { left, width } = this.scale.getBoundingClientRect();
    const rungs = Math.ceil(((clientX - left) / width) * ((state.model.scale.high - this.none) / this.rung));
    this.#mean(Math.max(state.model.scale.low, tidy(this.none + Math.max(1, rungs) * this.rung)));
  }

  #changed() {
    clearTimeout(this.#timer);
    const given = this.#given();
    if (!this.#byKey) this.#say(given);
    else this.#timer = setTimeout(() => this.#say(given), AFTER_KEYS);
  }

  #key(event) {
    this.#byKey = true;
    if (event.key === "Enter" && this.#timer) this.#say(this.#given());
    else if (event.key === "Delete" || event.key === "Backspace") this.#say(null);
    const digit = /^[0-9]$/.test(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey ? Number(event.key) : -1;
    if (digit >= state.model.scale.low && digit <= state.model.scale.high) {
      this.slider.value = digit;
      this.#mean(this.#given());
      this.#changed();
    }
  }

  #say(rating) {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#meant = undefined;
    state.rate(this.item, rating);
    this.show();
    if (rating === null) this.focus();
  }
}

customElements.define("rating-control", RatingControl);
state.on("rated corrected person", () => document.querySelectorAll("rating-control").forEach((control) => control.show()));

/** `captioned`: say in words what the stars are. */
export const ratingControl = (item, { captioned = false } = {}) => new RatingControl().setUp(item, captioned);
