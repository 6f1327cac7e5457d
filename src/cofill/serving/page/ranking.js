// What the list is ranked by, and how varied it is.

import { h } from "./dom.js";
import { state } from "./state.js";

const WAYS = { list: "choose", rating: "rate highest" };

/** @returns {HTMLElement} */
export function rankingBar() {
  const buttons = Object.keys(WAYS).map((by) => h("button", { type: "button", "data-by": by, onclick: () => rank({ by }) }));
  const group = h("div", { class: "ways", role: "group", "aria-label": "Ranked by" }, buttons);
  const variety = /** @type {HTMLInputElement} */ (h("input", {
    type: "range", min: 0, max: 0.9, step: 0.1, value: state.diversity, // at 1 it would not count who is looking
    onchange: () => rank({ diversity: variety.valueAsNumber }),
  }));
  const show = () => {
    group.hidden = !state.model.rated; // of interactions there are no ratings to rank by
    for (const button of buttons) {
      const by = button.dataset.by ?? "list";
      button.textContent = `What ${state.other === null ? "I" : "they"} would ${WAYS[by]}`;
      button.setAttribute("aria-pressed", String(state.by === by));
    }
  };
  for (const name of ["ranking", "person", "model"]) state.on(name, show);
  show();
  return h("div", { class: "ranking" }, group, h("label", { class: "range muted small" }, "Variety", variety));
}

/** @param {{by?: string, diversity?: number}} change */
function rank(change) {
  Object.assign(state, change);
  state.tell("ranking");
}
