// Why an item is recommended: a sentence, and the numbers that add up to it: parts of a star, or shares of a list score.

import { api } from "./api.js";
import { h } from "./dom.js";
import { state } from "./state.js";
import { loading, skeletons } from "./status.js";
import {
  addingUp, columnInWords, counted, oneDigit, ratingInWords, share, signed, signedShare, titleAndYear, titleOf, twoDigits,
} from "./words.js";

/**
 * @typedef {import("./api.js").Id} Id
 * @typedef {"list"|"rating"} By
 * @typedef {{amount: number, item?: Id, title?: string, rating?: number, feature?: string}} Contribution
 * @typedef {{by: By, value: number, unclipped: number, base: number, contributions: Contribution[], remainder: number,
 *   low?: number, high?: number, groups?: Record<string, number>}} Explanation
 * @typedef {import("./api.js").Item & {score: number, rating: number|null, raters: number, mean: number|null, why?: Explanation}} Recommended
 */

const MOST_BARS = 6;
const LITTLE = { rating: 0.005, list: 0.0005 }; // what rounds to nothing is no reason
const UNIT = { rating: 0.01, list: 0.001 }; // what amounts are rounded to

/** @type {Record<string, string>} */
const GROUPS = { trend: "Popular of late", history: "everything chosen so far", order: "what was chosen last" };

/** Why this person gets it; nothing where it is just popular. @param {Recommended} item @returns {string} */
export function reasonInWords(item) {
  const why = inUnits(/** @type {Explanation} */ (item.why));
  const helpful = why.contributions.filter((one) => one.amount >= LITTLE[why.by]).sort((a, b) => b.amount - a.amount);
  const against = why.contributions.reduce((sum, one) => sum + Math.min(one.amount, 0), 0);
  const first = helpful[0];
  // What is recommended in spite of one's ratings, or is popular, is not recommended because of one of them.
  const own = why.contributions.reduce((sum, one) => sum + Math.max(one.amount, 0), Math.max(why.remainder, 0));
  const popular = why.by === "list" && why.base > own;
  if (!first || first.amount < -against / 2 || popular) return "";
  if (first.feature) return `Because of ${whose()} ${first.feature.replaceAll("_", " ")}`;
  const second = helpful.find((one) =>
    one !== first && !one.feature && one.rating === first.rating && one.amount > first.amount / 2);
  const names = second ? `${name(first)} and ${name(second)}` : name(first);
  if (!rated(first)) return `Because ${who()} chose ${names}`;
  const { low, high } = state.model.scale;
  const liked = first.rating >= (low + high) / 2;
  // Who knows one may choose the other, whether they liked it or not.
  if (!liked && why.by === "list") return `Because ${who()} rated ${names}`;
  return `Because ${who()} gave ${names} ${liked ? "" : "only "}${ratingInWords(first.rating)}`;
}

const who = () => (state.other === null ? "you" : "they");
const whose = () => (state.other === null ? "your" : "their");

/** @param {Contribution} one */
const rated = (one) => one.rating !== undefined && state.model.rated;

/** @param {Contribution} one */
function name(one) {
  return titleAndYear({ id: one.item, title: one.title }).title;
}

/** In stars, or shares of the score; if little is left of it, of all that speaks for the item. @param {Explanation} why */
function inUnits(why) {
  const { by, value, unclipped, base, contributions, remainder, groups = {} } = why;
  const parts = [base, remainder, ...contributions.map((one) => one.amount)];
  const speaksForIt = parts.reduce((sum, amount) => sum + Math.max(amount, 0), 0);
  const unit = by === "rating" ? 1 : (unclipped > speaksForIt / 10 ? unclipped : speaksForIt) || 1;
  return {
    ...why, value: value / unit, unclipped: unclipped / unit, base: base / unit, remainder: remainder / unit,
    contributions: contributions.map((one) => ({ ...one, amount: one.amount / unit })),
    groups: Object.fromEntries(Object.entries(groups).map(([name, amount]) => [name, amount / unit])),
  };
}

/** The parts of a prediction as steps, each beginning where the last ended. @param {Explanation} found */
function breakdown(found) {
  const why = inUnits(found);
  const byWeight = [...why.contributions].sort((a, b) => Math.abs(b.amount) - Math.abs(a.amount));
  const shown = byWeight.slice(0, byWeight.length === MOST_BARS + 1 ? MOST_BARS + 1 : MOST_BARS);
  const rest = byWeight.slice(shown.length);
  const steps = shown.map((one) => ({ label: label(one), amount: one.amount }));
  if (rest.length) {
    const together = rest.reduce((sum, one) => sum + one.amount, 0);
    steps.push({ label: [`${counted(rest.length, "other reason")} together`], amount: together });
  }
  if (Math.abs(why.remainder) >= LITTLE[why.by]) steps.push({ label: ["Remainder"], amount: why.remainder });
  return waterfall(why, steps);
}

/** @param {Contribution} one */
function label(one) {
  if (one.feature) return [columnInWords(one.feature)];
  const given = rated(one) && h("span", { class: "muted" }, `  ${ratingInWords(one.rating)}`);
  return [titleOf({ id: one.item, title: one.title }), given];
}

/** @param {ReturnType<typeof inUnits>} why @param {{label: import("./dom.js").Child[], amount: number}[]} steps */
function waterfall(why, steps) {
  const ofList = why.by === "list";
  const little = LITTLE[why.by];
  /** @param {number} amount */
  const tone = (amount) => (Math.abs(amount) < little ? "" : amount < 0 ? "minus" : "plus");
  const [plain, change] = ofList ? [share, signedShare] : [twoDigits, signed];
  const shown = addingUp([why.base, ...steps.map((step) => step.amount)], why.unclipped, UNIT[why.by]);
  const [base, ...amounts] = shown.parts;
  let at = base;
  const ends = [at, ...amounts.map((amount) => (at += amount))];
  const low = Math.min(...ends);
  const high = Math.max(...ends);
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
  const clipped = Math.abs(why.value - why.unclipped) >= little;
  return h("div", { class: "breakdown" },
    h("ol", {},
      row(ofList ? "Popular with everybody" : "Where everybody starts", bar(base, base, "mark"), plain(base), "base"),
      steps.map(({ label }, i) =>
        row(label, bar(ends[i], ends[i + 1], amounts[i] < 0 ? "down" : "up"), change(amounts[i]), tone(amounts[i]))),
      row(ofList ? "Its score in the list" : "Predicted", bar(shown.total, shown.total, "mark"), plain(shown.total), "total")),
    clipped ? remark(`The scale ends there, so it is shown as ${oneDigit(why.value)}.`) : null,
    Object.keys(why.groups).length ? remark(Object.entries(why.groups)
      .map(([name, amount]) => `${GROUPS[name]} ${signedShare(amount)}`).join(", ")) : null,
    why.low === undefined ? null
      : remark(`${oneDigit(why.value)}, likely ${oneDigit(why.low)} to ${oneDigit(Number(why.high))}`));
}

/** @param {string} text */
const remark = (text) => h("p", { class: "muted small" }, text);

/** The same, in full, asked for when it is wanted. @param {Element} place @param {import("./api.js").Item} item @param {By} by */
export function showWhy(place, item, by) {
  const bring = async () => (state.user === null ? strangersWhy(item, by) : api.why(state.user, item.id, by));
  loading(place, bring, breakdown, skeletons(3, "line"));
}

/** Somebody without ratings gets what everybody starts from. @param {*} item @param {By} by @returns {Explanation} */
function strangersWhy(item, by) {
  const value = by === "list" ? item.score : item.rating;
  return { by, value, unclipped: value, base: value, contributions: [], remainder: 0 };
}
