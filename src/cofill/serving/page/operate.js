// The operator's page: what is served and how it does, what happens now, what a user sees, and what to do about it.

import { api, forgetKey, keyOf } from "./api.js";
import { announce, button, fill, h } from "./dom.js";
import { when } from "./model.js";
import { openItem } from "./route.js";
import { failure, loading, nothing, reason, skeletons, toast } from "./status.js";
import { count, counted, share, titleOf, titleParts, valueInWords } from "./words.js";

const EVENTS = 12;
const AGAIN = 5000; // ms between two looks at the events
const COMPARED = 10;
const FOUND = 6;
const SHORT = 10; // letters of a version

export function operatorView() {
  const models = h("div", {});
  const clicks = h("div", {});
  const events = h("div", {});
  const trained = h("div", {});
  const seen = h("div", {});

  /** Fill a place with an answer, or say why not; a key that may not do it can be replaced. */
  const ask = (place, bring, show) => loading(place, async () => {
    try {
      return show(await bring());
    } catch (error) {
      return error.status === 403 ? forbidden(error) : failure(error, load);
    }
  }, (shown) => shown, skeletons(3, "line"));

  const forbidden = (error) => h("div", { class: "box failure", role: "alert" }, h("p", {}, error.message), button({
    class: "quiet",
    onclick: () => {
      forgetKey();
      load();
    },
  }, "Use another key"));

  /** Do what cannot be seen until it is done, and look again. */
  const act = async (doing, done) => {
    announce("Under way…");
    try {
      toast(done(await doing()));
      load();
    } catch (error) {
      toast(reason(error));
    }
  };

  async function load() {
    const bring = async () => {
      const { models: served } = await api.model();
      return Promise.all(served.map(async (one) => ({ ...one, ...(await api.model(one.name)) })));
    };
    await ask(models, bring, (served) => {
      seen.replaceWith(compare(served, act));
      return served.map((one) => modelCard(one, act));
    });
    ask(clicks, api.clickThrough, clickThrough);
    ask(trained, api.trainings, (answer) => trainings(answer.trainings));
    tick();
  }

  let timer = 0;
  async function tick() {
    clearTimeout(timer);
    if (!events.isConnected) return;
    if (!document.hidden) await ask(events, () => api.events(EVENTS), (answer) => ticker(answer.events));
    if (!events.querySelector(".failure")) timer = setTimeout(tick, AGAIN);
  }

  queueMicrotask(load);
  return h("div", { class: "operate" }, h("h1", {}, "Operate the server"),
    h("section", { "aria-label": "Models" }, h("h2", {}, "What is served"), models),
    h("section", { "aria-label": "Click-through" }, h("h2", {}, "Click-through"),
      h("p", { class: "note" }, "What people did with what was shown to them, of each day and version, in UTC."), clicks),
    h("section", { "aria-label": "Events" }, h("h2", {}, "What happens now"), events),
    h("section", { "aria-label": "Trainings" }, h("h2", {}, "Trainings"), trained,
      button({ class: "quiet", onclick: () => act(api.retrain, () => "A new model will be trained.") }, "Train now")),
    seen,
    hiding(act));
}

/** A model, its figures, and what to do with it. */
function modelCard({ name, version, kind, trained, users, items, measures, ratings, share: part, refused, before }, act) {
  const replaced = ({ version: now }) => `${name} is ${now.slice(0, SHORT)} now.`;
  return h("article", { class: "served" },
    h("h3", {}, name, h("span", { class: "muted" }, ` ${kind}, trained ${when(trained)}`)),
    h("dl", { class: "facts" }, Object.entries({
      version: version.slice(0, SHORT), "part of the people": share(part), "trained on": counted(ratings.trained, "rating"),
      users: count(users), items: count(items),
      ...Object.fromEntries(Object.entries(measures).map(([measure, value]) => [measure.replaceAll("_", " "), valueInWords(value)])),
      "left out, as it does not fit": counted(refused, "live rating or description", "live ratings and descriptions"),
      "the one before": before?.slice(0, SHORT) ?? "none is kept",
    }).map(([label, value]) => [h("dt", {}, label), h("dd", {}, value)])),
    h("div", { class: "line" },
      button({ class: "quiet", onclick: () => act(() => api.reload(name), replaced) }, "Read its folder again"),
      before && button({ class: "quiet", onclick: () => act(() => api.rollBack(name), replaced) }, "Roll back")));
}

const table = (heads, rows) => h("table", {},
  h("thead", {}, h("tr", {}, heads.map((one) => h("th", { scope: "col" }, one)))),
  h("tbody", {}, rows.map(([first, ...cells]) =>
    h("tr", {}, h("th", { scope: "row" }, first), cells.map((one) => h("td", {}, one))))));

function clickThrough({ days }) {
  if (days.length === 0) {
    return nothing("Nothing was shown yet.", "Send events of the kind “shown” with the version of the model.");
  }
  return table(["Day", "Model", "Shown", "Of these"], days.map(({ day, model_version: version, shown, events }) => [
    day, version.slice(0, SHORT), count(shown), Object.entries(events).sort(([, a], [, b]) => b - a).map(([kind, n]) =>
      h("span", { class: "rate", style: { "--share": `${(100 * n) / Math.max(shown, n, 1)}%` } },
        `${kind} ${shown ? share(n / shown) : count(n)}`))]));
}

function trainings(all) {
  if (all.length === 0) return nothing("Nothing was trained yet.", "Start the server with --retrain and --retrain-with.");
  return table(["Began", "NDCG@10, served and new", "Outcome"], all.map((one) => [
    when(one.time), [one.served_ndcg, one.new_ndcg].map((ndcg) => ndcg?.toFixed(4) ?? "–").join(" → "),
    one.failed ?? (one.promoted ? `${one.version.slice(0, SHORT)} is served` : "the old one stays")]));
}

function ticker(events) {
  if (events.length === 0) return nothing("Nothing happened yet.");
  return h("ol", { class: "ticker" }, events.map(({ user, item, title, kind, time }) => h("li", {},
    h("time", { class: "muted" }, new Date(time * 1000).toLocaleTimeString("en-GB")),
    h("span", { class: "tag" }, kind),
    h("span", {}, `user ${keyOf(user)}`),
    button({ class: "title", onclick: () => openItem(item) }, titleParts({ id: item, title })))));
}

/** The lists of a user by two of the models, side by side. */
function compare(served, act) {
  const lists = h("div", { class: "compared" });
  const choice = (name, label, chosen) => h("label", {}, label,
    h("select", { name }, served.map((one, i) => h("option", { value: one.name, selected: i === chosen }, one.name))));
  const look = (event) => {
    event.preventDefault();
    const { user, left, right } = Object.fromEntries(new FormData(event.target));
    const names = [...new Set([left, right].filter(Boolean))];
    const bring = () => Promise.all(names.map((model) => api.recommendations({ user, model, n: COMPARED })));
    loading(lists, bring, (answers) => answers.map((answer, i) =>
      column(names[i], answer, answers[1 - i]?.items, act)), skeletons(3, "line"));
  };
  const [first] = served;
  return h("section", { "aria-label": "What a user sees" }, h("h2", {}, "What a user sees"),
    h("form", { class: "line", onsubmit: look },
      h("label", {}, "User", h("input", { type: "text", name: "user", required: true, autocomplete: "off" })),
      served.length > 1 ? [choice("left", "With", 0), choice("right", "and with", 1)]
        : h("input", { type: "hidden", name: "left", value: first.name }),
      h("button", { type: "submit", class: "primary" }, "Show")),
    served.length === 1 && h("p", { class: "note" }, "To compare a new model, serve it beside this one: ",
      h("code", {}, "cofill serve --model old=… --model new=…")),
    lists);
}

/** A list, and where in the other one its items stand. */
function column(name, { items, known }, others, act) {
  const place = (item) => others.findIndex((one) => keyOf(one.id) === keyOf(item.id)) + 1;
  return h("div", {}, h("h3", {}, name, h("span", { class: "muted" }, known ? "" : " (does not know this user)")),
    h("ol", { class: "rated-list" }, items.map((item) => h("li", {},
      button({ class: "title", onclick: () => openItem(item.id) }, titleParts(item)),
      h("span", { class: "muted small" }, others && (place(item) ? `there at ${place(item)}` : "not there")),
      hide(item, true, act)))));
}

const hide = (item, available, act) => button({
  class: "quiet", "aria-label": `${available ? "Hide" : "Show again"}: ${titleOf(item)}`,
  onclick: () => act(() => api.available(item.id, !available), () =>
    (available ? `${titleOf(item)} is in no list any more.` : `${titleOf(item)} may be in lists again.`)),
}, available ? "Hide" : "Show again");

/** Items by title, hidden ones too, each to hide or to show again. */
function hiding(act) {
  const list = h("ul", { class: "rated-list" });
  const input = h("input", {
    type: "search", "aria-label": "Title of an item", placeholder: "Title", autocomplete: "off", required: true,
  });
  const find = () => loading(list, async () => {
    const { items } = await api.items(input.value.trim(), FOUND, undefined, true);
    return Promise.all(items.map((item) => api.item(item.id)));
  }, (items) => (items.length === 0 ? h("li", { class: "muted" }, "Nothing is called that.") : items.map((item) => h("li", {},
    button({ class: "title", onclick: () => openItem(item.id) }, titleParts(item)),
    h("span", { class: "muted small" }, item.available ? "" : "hidden"),
    hide(item, item.available, async (...how) => {
      await act(...how);
      find();
    })))));
  const look = (event) => {
    event.preventDefault();
    find();
  };
  return h("section", { "aria-label": "Hide an item" }, h("h2", {}, "Hide an item"),
    h("form", { class: "line", onsubmit: look }, input, h("button", { type: "submit", class: "primary" }, "Find")), list);
}
