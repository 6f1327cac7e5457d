// Who looks: oneself, as described in a form if one likes, or somebody whom the model knows. And a way to begin anew.

import { aborted, api, keyOf } from "./api.js";
import { announce, button, fill, freshId, h, makeDialog } from "./dom.js";
import { state } from "./state.js";
import { nothing, reason, skeletons, toast } from "./status.js";
import { columnInWords, counted, titleAndYear, valueInWords, worded } from "./words.js";

const PEOPLE = 6; // to choose from; whoever knows an id finds anybody
const SUGGESTED = 100;

/** The button that says who looks, and its dialog. */
export function person(opener, notices) {
  const { dialog, body } = makeDialog("Who is looking", "person-dialog");
  const list = h("ul", { class: "people" });
  const input = h("input", {
    type: "search", placeholder: "Another user, by id", "aria-label": "Search for a user by id", autocomplete: "off",
    oninput: () => look(input.value.trim()),
  });
  const mine = h("div", { class: "mine" });
  fill(body, h("h2", {}, "Who is looking?"), mine,
    h("h3", {}, "See it with other eyes"),
    h("p", { class: "muted small" }, "Users of the training data, and what they rate higher than most."), list, input);
  let asked = null;

  async function look(query) {
    asked?.abort();
    asked = new AbortController();
    if (list.children.length === 0) fill(list, skeletons(PEOPLE, "line").map((one) => h("li", {}, one)));
    try {
      const { users } = await api.users(query, PEOPLE, asked.signal);
      fill(list, users.length ? users.map(choice) : h("li", {}, nothing(`No id begins with “${query}”.`)));
      announce(counted(users.length, "person", "people"));
    } catch (error) {
      if (!aborted(error)) fill(list, h("li", {}, nothing("This did not work.", reason(error))));
    }
  }

  function choice(user) {
    const now = state.other !== null && keyOf(state.other) === keyOf(user.id);
    const loved = user.loves.map((item) => titleAndYear(item).title);
    return h("li", {}, button({ "aria-pressed": String(now), onclick: () => become(user.id) },
      h("span", { class: "face", "aria-hidden": "true" }, loved[0]?.[0] ?? "·"),
      h("span", { class: "somebody" },
        h("span", { class: "loves" }, loved.length ? ["Loves ", listOf(loved)] : "Nothing known yet"),
        h("span", { class: "muted small" },
          `User ${keyOf(user.id)} · ${counted(user.ratings, worded("rating", "choice"))}`))));
  }

  async function become(id) {
    try {
      await state.become(id);
      dialog.close();
    } catch (error) {
      toast(reason(error), { label: "Try again", act: () => become(id) });
    }
  }

  function anew() {
    dialog.close();
    const undo = state.startAnew();
    toast("A new beginning: nothing is rated.", { label: "Undo", act: () => undo().catch((error) => toast(reason(error))) });
  }

  const name = () => (state.other === null ? "You" : `User ${keyOf(state.other)}`);

  function show() {
    fill(opener.querySelector(".who"), name());
    opener.setAttribute("aria-label", `${name()}: who is looking`);
    opener.classList.toggle("somebody", state.other !== null);
    notices.querySelector(".as")?.remove();
    if (state.other === null) return;
    notices.append(h("p", { class: "notice as" },
      `You see what user ${keyOf(state.other)} sees. Ratings you give now are theirs.`,
      button({ onclick: () => become(null) }, "Back to yourself")));
    announce(`Looking as user ${keyOf(state.other)}`);
  }

  opener.addEventListener("click", () => {
    const n = state.ratings.size;
    const [label, act] = state.other === null ? ["Start anew", anew] : ["Back to yourself", () => become(null)];
    const known = state.other !== null || n > 0 || state.about !== null;
    const has = n ? counted(n, worded("rating", "choice")) : `no ${worded("rating", "choice")} yet`;
    fill(mine, h("span", { class: "face", "aria-hidden": "true" }, "★"),
      h("p", {}, h("strong", {}, name()), h("br"), has),
      known && button({ class: "quiet", onclick: act }, label));
    input.value = "";
    dialog.showModal();
    look("");
  });
  state.on("person", show);
  show();
}

const listOf = (titles) =>
  titles.map((title, i) => [i === 0 ? "" : i === titles.length - 1 ? " and " : ", ", h("i", {}, title)]);

/** An invitation to say something about oneself, where the model can make use of it. */
export function aboutYou() {
  const open = button({ class: "quiet", onclick: describe });
  const text = h("p", {});
  const element = h("section", { class: "about-you", "aria-label": "About you" }, text, open);
  const show = () => {
    element.hidden = state.other !== null || columns().length === 0;
    const said = Object.entries(state.about ?? {});
    open.textContent = said.length ? "Change" : "About you";
    text.textContent = said.map(([name, value]) => `${columnInWords(name)}: ${valueInWords(value)}`).join(" · ")
      || "Nothing here that you know? Say something about yourself, and the list begins there.";
  };
  state.on("person described model", show);
  show();
  return element;
}

/** The columns that people can fill in; vectors and links they cannot. */
const columns = () => state.model.user_columns.filter(({ kind }) => kind in FIELDS);

function describe() {
  const { dialog, body } = makeDialog("About you", "about-dialog", () => dialog.remove());
  const wrong = h("p", { class: "wrong", role: "alert" });
  const say = async (about) => {
    try {
      await state.describe(about);
      dialog.close();
      toast(about === null ? "That is forgotten." : "Thank you. The list begins with that.");
    } catch (error) {
      wrong.textContent = reason(error);
    }
  };
  const read = (event) => {
    event.preventDefault();
    const said = [...new FormData(event.target)].filter(([, value]) => value.trim() !== "")
      .map(([name, value]) => [name, valueOf(columns().find((one) => one.column === name).kind, value.trim())]);
    say(said.length ? Object.fromEntries(said) : null);
  };
  fill(body, h("form", { onsubmit: read },
    h("h2", {}, "About you"),
    h("p", { class: "note" }, "Leave out whatever you like. It is used for your recommendations."),
    columns().map((column) => field(column, state.about?.[column.column])), wrong,
    h("div", { class: "line" },
      h("button", { type: "submit", class: "primary" }, "Use this"),
      state.about !== null && button({ class: "quiet", onclick: () => say(null) }, "Forget it"))));
  dialog.showModal();
}

/** How each kind of column is asked for; those of several words with commas between them. */
const FIELDS = {
  number: { type: "number", step: "any", inputmode: "decimal" },
  date: { type: "date" },
  text: { type: "text" },
  flag: { choices: ["yes", "no"] },
  category: {},
  several: { type: "text" },
  tags: { type: "text" },
};

function valueOf(kind, text) {
  if (kind === "number") return Number(text);
  return ["several", "tags"].includes(kind) ? text.split(",").map((word) => word.trim()).filter(Boolean) : text;
}

function field({ column: name, kind, example, choices }, now) {
  const year = kind === "date" && /^\d{4}$/.test(example);
  const { type, choices: own = choices, ...how } = year ? { type: "number", inputmode: "numeric" } : FIELDS[kind];
  const shown = type ? own.slice(0, SUGGESTED) : own;
  const options = shown.map((one) => h("option", { value: one, selected: one === now }, one));
  const id = freshId("choices");
  return h("label", { class: "field" }, columnInWords(name), type
    ? [h("input", {
      type, name, ...how, list: options.length > 0 && id, autocomplete: "off", placeholder: example && `such as ${example}`,
      value: Array.isArray(now) ? now.join(", ") : now,
    }), options.length > 0 && h("datalist", { id }, options)]
    : h("select", { name }, h("option", { value: "" }, "–"), options));
}
