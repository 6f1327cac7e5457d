// Why an item is recommended: a sentence, and the numbers that add up to it.

import { api } from "./api.js";
import { h } from "./dom.js";
import { state } from "./state.js";
import { loading, skeletons } from "./status.js";
import { columnInWords, counted, oneDigit, ratingInWords, signed, titleOf } from "./words.js";

/**
 * @typedef {import("./api.js").Id} Id
 * @typedef {{amount: number, item?: Id, title?: string, rating?: number, feature?: string}} Contribution
 * @typedef {{rating: number, unclipped: number, base: number, contributions: Contribution[], remainder: number}} Explanation
 */

const MOST_BARS = 6;
const LITTLE = 0.005; // of a star: what rounds to nothing is no reason

/** @param {Explanation} why @returns {string} */
export function reasonInWords(why) {
  const helpful = why.contributions.filter((one) => one.amount >= LITTLE).sort((a, b) => b.amount - a.amount);
  const against = why.contributions.reduce((sum, one) => sum + Math.min(one.amount, 0), 0);
  const first = helpful[0];
  // What is recommended in spite of one's ratings is not recommended because of one of them.
  if (!first || first.amount < -against / 2) return "Liked by many";
  const { low, high } = state.model.scale;
  if (first.feature) return `Because of ${whose()} ${first.feature.replaceAll("_", " ")}`;
  const liked = first.rating >= (low + high) / 2;
  const second = helpful.find((one) =>
    one !== first && !one.feature && one.rating === first.rating && one.amount > first.amount / 2);
  const names = second ? `${name(first)} and ${name(second)}` : name(first);
  return `Because ${who()} gave ${names} ${liked ? "" : "only "}${ratingInWords(first.rating)}`;
}

const who = () => (state.other === null ? "you" : "they");
const whose = () => (state.other === null ? "your" : "their");

/** @param {Contribution} one */
function name(one) {
  return titleOf({ id: one.item, title: one.title }).replace(/ \(\d{4}\)$/, "");
}

/** The parts of a prediction as steps, each beginning where the last ended. @param {Explanation} why */
function breakdown(why) {
  const byWeight = [...why.contributions].sort((a, b) => Math.abs(b.amount) - Math.abs(a.amount));
  const shown = byWeight.slice(0, byWeight.length === MOST_BARS + 1 ? MOST_BARS + 1 : MOST_BARS);
  const rest = byWeight.slice(shown.length);
  const steps = shown.map((one) => ({
    label: one.feature ? [columnInWords(one.feature)]
      : [titleOf({ id: one.item, title: one.title }), h("span", { class: "muted" }, `  ${ratingInWords(one.rating)}`)],
    amount: one.amount,
  }));
  if (rest.length) {
    const together = rest.reduce((sum, one) => sum + one.amount, 0);
    steps.push({ label: [`${counted(rest.length, "other reason")} together`], amount: together });
  }
  if (Math.abs(why.remainder) >= LITTLE) steps.push({ label: ["Remainder"], amount: why.remainder });
  return waterfall(why, steps);
}

/** @param {number} amount */
const tone = (amount) => (Math.abs(amount) < LITTLE ? "" : amount < 0 ? "minus" : "plus");

/** @param {Explanation} why @param {{label: import("./dom.js").Child[], amount: number}[]} steps */
function waterfall(why, steps) {
  let at = why.base;
  const ends = [at, ...steps.map((step) => (at += step.amount))];
  const low = Math.min(...ends, why.unclipped);
  const high = Math.max(...ends, why.unclipped);
  const margin = Math.max((high - low) * 0.12, 0.05);
  /** @param {number} value */
  const place = (value) => ((value - low + margin) / (high - low + 2 * margin)) * 100;
  /** @param {number} from @param {number} to @param {string} kind */
  const bar = (from, to, kind) => h("span", { class: "track", "aria-hidden": "true" }, h("span", {
    class: `step ${kind}`,
    style: { "--from": `${place(Math.min(from, to))}%`, "--to": `${place(Math.max(from, to))}%` },
  }));
  /** @param {import("./dom.js").Child} label @param {HTMLElement} track @param {string} amount @param {string} kind */
  const row = (label, track, amount, kind) => h("li", { class: kind },
    h("span", { class: "label" }, label), track, h("span", { class: "amount" }, amount));
  const clipped = Math.abs(why.rating - why.unclipped) >= LITTLE;
  return h("div", { class: "breakdown" },
    h("ol", {},
      row("Where everybody starts", bar(why.base, why.base, "mark"), why.base.toFixed(2), "base"),
      steps.map(({ label, amount }, i) =>
        row(label, bar(ends[i], ends[i + 1], amount < 0 ? "down" : "up"), signed(amount), tone(amount))),
      row("Predicted", bar(why.unclipped, why.unclipped, "mark"), why.unclipped.toFixed(2), "total")),
    clipped ? h("p", { class: "muted small" }, `The scale ends there, so it is shown as ${oneDigit(why.rating)}.`) : null);
}

/** The same, in full, asked for when it is wanted. @param {Element} place @param {import("./api.js").Item} item */
export function showWhy(place, item) {
  const bring = async () => (state.user === null ? strangersWhy(item) : api.why(state.user, item.id));
  loading(place, bring, breakdown, skeletons(3, "line"));
}

/** Somebody without ratings gets what everybody starts from. @param {*} item @returns {Explanation} */
function strangersWhy(item) {
  return { rating: item.rating, unclipped: item.rating, base: item.rating, contributions: [], remainder: 0 };
}
