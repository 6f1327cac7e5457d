// Who looks: oneself, or somebody that the model knows. And a way to begin anew.

import { aborted, api, keyOf } from "./api.js";
import { makeDialog } from "./dialog.js";
import { announce, fill, h } from "./dom.js";
import { state } from "./state.js";
import { nothing, reason, skeletons, toast } from "./status.js";
import { counted } from "./words.js";

const FOUND = 20;

/** @param {HTMLElement} button @param {HTMLElement} notices */
export function person(button, notices) {
  const { dialog, body } = makeDialog({ label: "Who is looking", className: "person-dialog" });
  const list = h("ul", { class: "people" });
  const input = /** @type {HTMLInputElement} */ (h("input", {
    type: "search", placeholder: "Search by id", "aria-label": "Search for a user by id", autocomplete: "off",
    oninput: () => look(input.value.trim()),
  }));
  const mine = h("div", { class: "mine" });
  fill(body, h("h2", {}, "Who is looking?"), mine, h("h3", {}, "Somebody the model knows"), input, list);
  /** @type {AbortController|null} */
  let asked = null;

  /** @param {string} query */
  async function look(query) {
    asked?.abort();
    asked = new AbortController();
    if (list.children.length === 0) fill(list, skeletons(6, "line"));
    try {
      const { users } = await api.users(query, FOUND, asked.signal);
      fill(list, users.length ? users.map(choice) : nothing(`Nobody's id begins with “${query}”.`));
      announce(counted(users.length, "user"));
    } catch (error) {
      if (!aborted(error)) fill(list, nothing("This did not work.", reason(error)));
    }
  }

  /** @param {{id: import("./api.js").Id, ratings: number}} user */
  function choice(user) {
    const now = state.other !== null && keyOf(state.other) === keyOf(user.id);
    return h("li", {}, h("button", { type: "button", "aria-pressed": String(now), onclick: () => become(user.id) },
      h("span", {}, `User ${keyOf(user.id)}`), h("span", { class: "muted" }, counted(user.ratings, "rating"))));
  }

  /** @param {import("./api.js").Id|null} id */
  async function become(id) {
    try {
      await state.become(id);
      dialog.close();
    } catch (error) {
      toast(reason(error), { label: "Try again", act: () => become(id) });
    }
  }

  async function anew() {
    dialog.close();
    try {
      const undo = await state.startAnew();
      toast("A new beginning: nothing is rated.", { label: "Undo", act: () => undo().catch((error) => toast(reason(error))) });
    } catch (error) {
      toast(reason(error), { label: "Try again", act: anew });
    }
  }

  function show() {
    const other = state.other;
    const name = other === null ? "You" : `User ${keyOf(other)}`;
    fill(/** @type {HTMLElement} */ (button.querySelector(".who")), name);
    button.setAttribute("aria-label", `${name}: who is looking`);
    button.classList.toggle("somebody", other !== null);
    notices.querySelector(".as")?.remove();
    if (other === null) return;
    notices.append(h("p", { class: "notice as" }, `You see what user ${keyOf(other)} sees. Ratings you give now are theirs.`,
      h("button", { type: "button", onclick: () => become(null) }, "Back to yourself")));
    announce(`Looking as user ${keyOf(other)}`);
  }

  button.addEventListener("click", () => {
    const n = state.ratings.size;
    const self = state.other === null;
    const [label, act] = self ? ["Start anew", anew] : ["Back to yourself", () => become(null)];
    fill(mine, h("p", {}, `${self ? "You" : `User ${keyOf(state.other)}`}, with ${n ? counted(n, "rating") : "no rating yet"}.`),
      self && n === 0 ? null : h("button", { type: "button", class: "quiet", onclick: act }, label));
    input.value = "";
    dialog.showModal();
    look("");
  });
  state.on("person", show);
  show();
}
