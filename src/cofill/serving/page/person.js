// Who looks: oneself, or somebody that the model knows, told apart by what they love. And a way to begin anew.

import { aborted, api, keyOf } from "./api.js";
import { announce, fill, h, makeDialog } from "./dom.js";
import { state } from "./state.js";
import { nothing, reason, skeletons, toast } from "./status.js";
import { counted, titleAndYear, worded } from "./words.js";

const SHOWN = 6; // people to choose from; whoever knows an id finds anybody
const FACES = 8; // colours of them, those of the groups

/** @typedef {{id: import("./api.js").Id, ratings: number, loves: {id: import("./api.js").Id, title: string|null}[]}} Somebody */

/** @param {HTMLElement} button @param {HTMLElement} notices */
export function person(button, notices) {
  const { dialog, body } = makeDialog({ label: "Who is looking", className: "person-dialog" });
  const list = h("ul", { class: "people" });
  const input = /** @type {HTMLInputElement} */ (h("input", {
    type: "search", placeholder: "Another user, by id", "aria-label": "Search for a user by id", autocomplete: "off",
    oninput: () => look(input.value.trim()),
  }));
  const mine = h("div", { class: "mine" });
  fill(body, h("h2", {}, "Who is looking?"), mine,
    h("h3", {}, "See it with other eyes"),
    h("p", { class: "muted small" }, "Users of the training data, and what they rate higher than most."), list, input);
  /** @type {AbortController|null} */
  let asked = null;

  /** @param {string} query */
  async function look(query) {
    asked?.abort();
    asked = new AbortController();
    if (list.children.length === 0) fill(list, skeletons(SHOWN, "line").map((one) => h("li", {}, one)));
    try {
      const { users } = await api.users(query, SHOWN, asked.signal);
      fill(list, users.length ? users.map(choice) : h("li", {}, nothing(`No id begins with “${query}”.`)));
      announce(counted(users.length, "person", "people"));
    } catch (error) {
      if (!aborted(error)) fill(list, h("li", {}, nothing("This did not work.", reason(error))));
    }
  }

  /** @param {Somebody} user */
  function choice(user) {
    const now = state.other !== null && keyOf(state.other) === keyOf(user.id);
    const loved = user.loves.map((item) => titleAndYear(item).title);
    return h("li", {}, h("button", { type: "button", "aria-pressed": String(now), onclick: () => become(user.id) },
      h("span", { class: "face", "aria-hidden": "true", style: { "--face": `var(--group-${number(keyOf(user.id)) % FACES})` } },
        loved[0]?.[0] ?? "·"),
      h("span", { class: "somebody" },
        h("span", { class: "loves" }, loved.length ? ["Loves ", listOf(loved)] : "Nothing known yet"),
        h("span", { class: "muted small" }, `User ${keyOf(user.id)} · ${counted(user.ratings, worded("rating", "choice"))}`))));
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
    const nobody = self && n === 0 && state.about === null;
    const has = n ? counted(n, worded("rating", "choice")) : `no ${worded("rating", "choice")} yet`;
    fill(mine, h("span", { class: "face own", "aria-hidden": "true" }, "★"),
      h("p", {}, h("strong", {}, self ? "You" : `User ${keyOf(state.other)}`), h("br"), has),
      nobody ? null : h("button", { type: "button", class: "quiet", onclick: act }, label));
    input.value = "";
    dialog.showModal();
    look("");
  });
  state.on("person", show);
  show();
}

/** @param {string[]} titles */
function listOf(titles) {
  return titles.map((title, i) => [i === 0 ? "" : i === titles.length - 1 ? " and " : ", ", h("i", {}, title)]);
}

/** @param {string} id */
function number(id) {
  return [...id].reduce((sum, letter) => (sum * 31 + (letter.codePointAt(0) ?? 0)) % 9973, 7);
}
