// Why an item is recommended: a sentence, and the numbers that add up to it: parts of a star, or shares of a list score.

import { api } from "./api.js";
import { h } from "./dom.js";
import { state } from "./state.js";
import { loading, skeletons } from "./status.js";
import {
  addingUp, columnInWords, counted, oneDigit, ratingInWords, share, signed, signedShare, titleAndYear, titleOf, twoDigits,
} from "./words.js";

const MOST_BARS = 6;
const LITTLE = { rating: 0.005, list: 0.0005 }; // what rounds to nothing is no reason
const UNIT = { rating: 0.01, list: 0.001 }; // what amounts are rounded to
const GROUPS = { trend: "Popular of late", history: "everything chosen so far", order: "what was chosen last" };
const positive = (sum, amount) => sum + Math.max(amount, 0);

/** Why this person gets it; nothing where it is just popular. */
export function reasonInWords(item) {
  const { by, base, remainder, contributions } = inUnits(item.why);
  const helpful = contributions.filter((one) => one.amount >= LITTLE[by]).sort((a, b) => b.amount - a.amount);
  const against = contributions.reduce((sum, one) => sum - Math.min(one.amount, 0), 0);
  const own = contributions.map((one) => one.amount).reduce(positive, Math.max(remainder, 0));
  const [first] = helpful;
  // What is recommended in spite of one's ratings, or is popular, is not recommended because of one of them.
  if (!first || first.amount < against / 2 || (by === "list" && base > own)) return "";
  const [who, whose] = state.other === null ? ["you", "your"] : ["they", "their"];
  if (first.feature) return `Because of ${whose} ${first.feature.replaceAll("_", " ")}`;
  const second = helpful.slice(1).find((one) => !one.feature && one.rating === first.rating && one.amount > first.amount / 2);
  const names = [first, second].filter(Boolean).map((one) => titleAndYear(asItem(one)).title).join(" and ");
  if (!rated(first)) return `Because ${who} chose ${names}`;
  const { low, high } = state.model.scale;
  const liked = first.rating >= (low + high) / 2;
  // Who knows one may choose the other, whether they liked it or not.
  if (!liked && by === "list") return `Because ${who} rated ${names}`;
  return `Because ${who} gave ${names} ${liked ? "" : "only "}${ratingInWords(first.rating)}`;
}

const rated = (one) => one.rating !== undefined && state.model.rated;
const asItem = (one) => ({ id: one.item, title: one.title });

/** In stars, or shares of the score; if little is left of it, of all that speaks for the item. */
function inUnits({ by, value, unclipped, base, contributions, remainder, groups = {}, ...more }) {
  const speaksForIt = [base, remainder, ...contributions.map((one) => one.amount)].reduce(positive, 0);
  const unit = by === "rating" ? 1 : (unclipped > speaksForIt / 10 ? unclipped : speaksForIt) || 1;
  return {
    ...more, by, value: value / unit, unclipped: unclipped / unit, base: base / unit, remainder: remainder / unit,
    contributions: contributions.map((one) => ({ ...one, amount: one.amount / unit })),
    groups: Object.entries(groups).map(([name, amount]) => `${GROUPS[name]} ${signedShare(amount / unit)}`).join(", "),
  };
}

/** The parts of a prediction as steps, each beginning where the last ended. */
function breakdown(found) {
  const why = inUnits(found);
  const { by, base, remainder, value, unclipped } = why;
  const byWeight = why.contributions.sort((a, b) => Math.abs(b.amount) - Math.abs(a.amount));
  const shown = byWeight.slice(0, byWeight.length === MOST_BARS + 1 ? MOST_BARS + 1 : MOST_BARS);
  const rest = byWeight.slice(shown.length);
  const steps = shown.map((one) => ({ label: label(one), amount: one.amount }));
  if (rest.length) {
    steps.push({
      label: `${counted(rest.length, "other reason")} together`, amount: rest.reduce((sum, one) => sum + one.amount, 0),
    });
  }
  if (Math.abs(remainder) >= LITTLE[by]) steps.push({ label: "Remainder", amount: remainder });

  const rounded = addingUp([base, ...steps.map((step) => step.amount)], unclipped, UNIT[by]);
  const [start, ...amounts] = rounded.parts;
  const ends = [start];
  for (const amount of amounts) ends.push(ends.at(-1) + amount);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const margin = Math.max((high - low) * 0.12, 0.05);
  const place = (at) => `${((at - low + margin) / (high - low + 2 * margin)) * 100}%`;
  const bar = (from, to, kind) => h("span", { class: "track", "aria-hidden": "true" }, h("span", {
    class: `step ${kind}`, style: { "--from": place(Math.min(from, to)), "--to": place(Math.max(from, to)) },
  }));
  const row = (words, track, amount, kind) => h("li", { class: kind },
    h("span", { class: "label" }, words), track, h("span", { class: "amount" }, amount));
  const tone = (amount) => (Math.abs(amount) < LITTLE[by] ? "" : amount < 0 ? "minus" : "plus");
  const [plain, change, first, last] = by === "list" ? [share, signedShare, "Popular with everybody", "Its score in the list"]
    : [twoDigits, signed, "Where everybody starts", "Predicted"];
  const remark = (text) => h("p", { class: "muted small" }, text);
  return h("div", { class: "breakdown" },
    h("ol", {},
      row(first, bar(start, start, "mark"), plain(start), "base"),
      steps.map(({ label: words }, i) =>
        row(words, bar(ends[i], ends[i + 1], amounts[i] < 0 ? "down" : "up"), change(amounts[i]), tone(amounts[i]))),
      row(last, bar(rounded.total, rounded.total, "mark"), plain(rounded.total), "total")),
    Math.abs(value - unclipped) >= LITTLE[by] && remark(`The scale ends there, so it is shown as ${oneDigit(value)}.`),
    why.groups && remark(why.groups),
    why.low !== undefined && remark(`${oneDigit(value)}, likely ${oneDigit(why.low)} to ${oneDigit(why.high)}`));
}

function label(one) {
  if (one.feature) return columnInWords(one.feature);
  return [titleOf(asItem(one)), rated(one) && h("span", { class: "muted" }, `  ${ratingInWords(one.rating)}`)];
}

/** The same, in full, asked for when it is wanted. */
export function showWhy(place, item, by) {
  const value = by === "list" ? item.score : item.rating;
  const strangers = { by, value, unclipped: value, base: value, contributions: [], remainder: 0 };
  const bring = async () => (state.user === null ? strangers : api.why(state.user, item.id, by));
  loading(place, bring, breakdown, skeletons(3, "line"));
}
