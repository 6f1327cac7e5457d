// What the page knows: the model, who is looking, their ratings, the list they see. The parts of the page listen.
//
// Events: "person" (somebody else, with other ratings), "rated" (one rating, shown before the server has it), "settled"
// (the server has all of them), "corrected" (as the server has them), "failed" (a rating was not taken), "described"
// (what somebody said about themselves), "where" (the filter), "ranking" (what the list is ranked by, and its variety),
// "recommended" (the list), "model" (a newer one is served).

import { api, keyOf, parseExactly, Problem } from "./api.js";

/** What outlives the page: "me", what I said "about" myself, and what I "skipped". */
export const recall = (name) => parseExactly(localStorage.getItem(`cofill.${name}`) ?? "null");

export function remember(name, value) {
  if (value === null) localStorage.removeItem(`cofill.${name}`);
  else localStorage.setItem(`cofill.${name}`, JSON.stringify(value));
}

const tabs = new BroadcastChannel("cofill"); // all tabs are one person

/** Errors that no server told are ours. */
const report = (error) => error instanceof Problem || console.error(error);

class State extends EventTarget {
  model = null; // the answer of /v1/model
  settings = null; // what the server was started with
  ratings = new Map(); // {item, title, rating} by item, the newest last
  recommended = [];
  where = {}; // conditions by column
  by = "list"; // or "rating": what the list is ranked by
  diversity = 0;

  #self = { id: null, own: true }; // a user that this browser made; no id before the first rating
  #person = this.#self; // through whose eyes we look
  #chosen = null; // the person asked for last, whose ratings may be on their way
  #stored = new Map(); // the ratings that the server has for certain; `ratings` may be ahead of it
  #failures = new Map(); // by item, to be told when all is sent
  #doubtful = false; // whether the server may have other ratings than we think
  #queue = Promise.resolve();
  #waiting = 0;
  #changes = 0; // of a rating or a person: tells whether an answer comes too late

  on(name, listener, options = {}) {
    for (const one of name.split(" ")) this.addEventListener(one, (event) => listener(event.detail), options);
  }

  tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  /** The id of somebody else whose eyes we look through, or null. */
  get other() {
    return this.#person.own ? null : this.#person.id;
  }

  get user() {
    return this.#person.id;
  }

  /** What we said about ourselves, by column, or null; the server does not tell it again. */
  get about() {
    return this.#person.own ? recall("about") : null;
  }

  ratingOf(id) {
    return this.ratings.get(keyOf(id))?.rating ?? null;
  }

  /** Find the model, and ourselves as we were when the page was last open. */
  async start() {
    [this.model, this.settings] = await Promise.all([api.model(), api.settings()]);
    await this.#load({ id: recall("me"), own: true });
    tabs.onmessage = ({ data }) => this.#follow(parseExactly(data));
  }

  /** A newer model may have taken the place of the one we know. */
  async noticeVersion(version) {
    if (version === this.model.version) return;
    try {
      const model = await api.model();
      if (model.version === this.model.version) return; // another answer told it as well
      this.model = model;
      if (!model.rated) this.by = "list";
      this.tell("model");
    } catch (error) {
      report(error); // the next answer tells it again
    }
  }

  /** Look through the eyes of another user; null: back to oneself. */
  become(other) {
    return this.#load(other === null ? this.#self : { id: other, own: false });
  }

  /** Leave the user that we were and be nobody yet; what is brought takes it back. */
  startAnew() {
    const [self, about, skipped] = [this.#self, recall("about"), recall("skipped")];
    this.#chosen = null;
    remember("skipped", null);
    this.#turnInto({ id: null, own: true }, new Map());
    this.#tellTabs();
    return async () => {
      await this.#load(self);
      remember("about", about);
      remember("skipped", skipped);
      this.tell("described");
      this.#tellTabs();
    };
  }

  /** Rate, rate otherwise, or (null) take a rating back. Shown at once, sent in order, for whoever we are now. */
  rate(item, value) {
    const before = this.ratingOf(item.id);
    if (before === value) return;
    const person = this.#person;
    put(this.ratings, item, value);
    this.tell("rated", { item, before, after: value });
    this.#waiting += 1;
    this.#changes += 1;
    this.#queue = this.#queue.then(async () => {
      try {
        const user = await this.#idOf(person);
        await (value === null ? api.unrate(user, item.id) : api.rate(user, item.id, value));
        if (person === this.#person) put(this.#stored, item, value);
        if (person === this.#self) this.#tellTabs();
        this.#failures.delete(keyOf(item.id));
      } catch (error) {
        report(error);
        this.#doubtful = true;
        this.#failures.set(keyOf(item.id), { item, value, error, person });
      }
      this.#waiting -= 1;
      this.settle();
    });
  }

  /** Say something about ourselves, or (null) take it back; the list follows. */
  async describe(about) {
    const self = this.#self;
    await this.#queue;
    await api.describe(await this.#idOf(self), about ?? {});
    if (self !== this.#self) return;
    remember("about", about);
    this.tell("described");
    this.#tellTabs();
    this.settle();
  }

  /** When all is sent: tell what was not taken, and let the list follow. */
  async settle() {
    while (this.#waiting === 0 && this.#doubtful && !(await this.#correct()));
    if (this.#waiting > 0) return; // its end will settle
    const failures = [...this.#failures.values()];
    this.#failures.clear();
    for (const { person, ...failure } of failures) {
      const ours = person === this.#person;
      const done = ours && this.ratingOf(failure.item.id) === failure.value; // only the answer was lost
      if (!done) this.tell("failed", { ...failure, ours });
    }
    this.tell("settled");
  }

  /** Show what the server has, or what it had when we last knew; false: that came too late. */
  async #correct() {
    const changes = this.#changes;
    const found = await this.#ratingsOf(this.#person).catch(report);
    if (changes !== this.#changes) return false;
    this.#doubtful = !(found instanceof Map);
    this.#hold(this.#doubtful ? this.#stored : found);
    this.tell("corrected");
    return true;
  }

  #hold(ratings) {
    this.#stored = ratings;
    this.ratings = new Map(ratings);
  }

  /** The id of a person; our first rating makes ours, so that a mere look leaves nothing behind. */
  async #idOf(person) {
    const elsewhere = () => (person === this.#self ? recall("me") : null); // another tab may be quicker
    person.id ??= elsewhere();
    if (person.id === null) {
      const { id } = await api.newUser();
      person.id ??= elsewhere() ?? id;
      if (person === this.#self) remember("me", person.id);
    }
    return person.id;
  }

  #tellTabs() {
    tabs.postMessage(JSON.stringify(this.#self.id));
  }

  /** Another tab has rated, or begun anew; `me` is who we are there. */
  #follow(me) {
    if (this.#self.id === null) {
      this.#self.id = me;
    } else if (me === null || keyOf(me) !== keyOf(this.#self.id)) {
      const wasOther = !this.#person.own;
      this.#self = { id: me, own: true };
      this.#chosen = null; // what was chosen as the former is void
      if (!wasOther) this.#turnInto(this.#self, new Map());
    }
    this.tell("described"); // it may have been said there
    this.#doubtful = true;
    this.settle();
  }

  async #load(person) {
    this.#chosen = person;
    await this.#queue; // what is on its way may be theirs
    const found = await this.#ratingsOf(person).catch((error) => error);
    if (this.#chosen !== person) return; // somebody else was chosen meanwhile
    if (found instanceof Error) throw found;
    this.#turnInto(person, found);
  }

  #turnInto(person, ratings) {
    if (person.own) {
      this.#self = person;
      remember("me", person.id);
      if (person.id === null) remember("about", null);
    }
    this.#person = person;
    this.#changes += 1;
    this.#doubtful = false;
    this.#hold(ratings);
    this.tell("person");
  }

  /**
   * Where another model, or an empty database, stands in the place of the one that knew us, we begin again: our id may
   * be nobody's there, or that of somebody whom the model was trained on, whose ratings are not ours to change.
   */
  async #ratingsOf(person) {
    if (person.id === null) return new Map();
    try {
      const { ratings } = await api.ratings(person.id);
      if (!person.own || ratings.every((rating) => rating.live)) {
        return new Map(ratings.reverse().map((rating) => [keyOf(rating.item), rating]));
      }
    } catch (error) {
      if (!person.own || error.status !== 404) throw error;
    }
    person.id = null;
    if (person === this.#self) remember("me", null);
    return new Map();
  }
}

function put(ratings, item, value) {
  if (value === null) ratings.delete(keyOf(item.id));
  else ratings.set(keyOf(item.id), { item: item.id, title: item.title, rating: value });
}

export const state = new State();
