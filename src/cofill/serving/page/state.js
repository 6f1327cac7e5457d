// What the page knows: the model, who is looking, their ratings, the list they see. The parts of the page listen.
//
// Events: "person" (somebody else, with other ratings), "rated" (one rating, shown before the server has it),
// "settled" (the server has all of them), "corrected" (as the server has them: one was not taken, or another tab gave
// one), "failed" (a rating was not taken), "described" (what somebody said about themselves), "where" (the filter), "ranking" (what the list is ranked by, and its variety),
// "recommended" (the list), "model" (a newer one is served).

import { api, keyOf, Problem } from "./api.js";
import { recall, remember, tellOtherTabs, whenOtherTabTells } from "./memory.js";
import { loadSettings } from "./settings.js";

/**
 * @typedef {import("./api.js").Id} Id
 * @typedef {import("./api.js").Item} Item
 * @typedef {{item: Id, title: string|null, rating: number}} Rating
 * @typedef {{item: Item, before: number|null, after: number|null}} Change
 * @typedef {{item: Item, value: number|null, error: *, person: number}} Failure
 * @typedef {{id: Id|null}} Self  a user that this browser made; no id before the first rating
 */

class State extends EventTarget {
  /** @type {*} the answer of /v1/model */
  model = null;
  /** @type {Id|null} somebody else, whose eyes we look through */
  other = null;
  /** @type {Map<string, Rating>} the newest last */
  ratings = new Map();
  /** @type {Item[]} */
  recommended = [];
  /** @type {Object<string, *>} conditions by column */
  where = {};
  /** @type {"list"|"rating"} what the list is ranked by */
  by = "list";
  diversity = 0;

  /** @type {Self} */
  #self = { id: null };
  /** @type {Map<string, Rating>} what the server has for certain; `ratings` may be ahead of it */
  #stored = new Map();
  /** @type {Map<string, Failure>} by item, to be told when all is sent */
  #failures = new Map();
  #doubtful = false; // whether the server may have other ratings than we think
  #queue = Promise.resolve();
  #waiting = 0;
  // Counters that tell whether an answer comes too late:
  #choices = 0; // of a person
  #person = 0;
  #changes = 0; // of a rating or a person

  /** @param {string} name @param {(detail: *) => void} listener @param {AddEventListenerOptions} [options] */
  on(name, listener, options = {}) {
    this.addEventListener(name, (event) => listener(/** @type {CustomEvent} */ (event).detail), options);
  }

  /** @param {string} name @param {*} [detail] */
  tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  /** @returns {Object<string, *>|null} what we said about ourselves, by column; the server does not tell it again */
  get about() {
    return this.other === null ? recall("about") : null;
  }

  get user() {
    return this.other ?? this.#self.id;
  }

  /** @param {Id} id @returns {number|null} */
  ratingOf(id) {
    return this.ratings.get(keyOf(id))?.rating ?? null;
  }

  /** Find the model, and ourselves as we were when the page was last open. */
  async start() {
    [this.model] = await Promise.all([api.model(), loadSettings()]);
    await this.#load({ id: recall("me") }, null);
    whenOtherTabTells((me) => this.#follow(me));
  }

  /** A newer model may have taken the place of the one we know. @param {string} version */
  async noticeVersion(version) {
    if (version === this.model.version) return;
    try {
      const model = await api.model();
      if (model.version === this.model.version) return; // another answer told it as well
      this.model = model;
      if (!model.rated) this.by = "list";
      this.tell("model");
    } catch (error) {
      if (!(error instanceof Problem)) console.error(error); // else the next answer tells it again
    }
  }

  /** @param {Id|null} other null: back to oneself */
  async become(other) {
    await this.#load(this.#self, other);
  }

  /** Leave the user that we were and be nobody yet. @returns {() => Promise<void>} takes it back */
  async startAnew() {
    const [self, skipped, about] = [this.#self, recall("skipped"), recall("about")];
    await this.#load({ id: null }, null, [], Promise.resolve());
    tellOtherTabs(null);
    return async () => {
      await this.#load(self, null, skipped);
      remember("about", about);
      if (about !== null) this.tell("described");
      tellOtherTabs(self.id);
    };
  }

  /**
   * Rate, rate otherwise, or (null) take a rating back. Shown at once, sent in order, for whoever we are now.
   * @param {Item} item @param {number|null} value
   */
  rate(item, value) {
    const before = this.ratingOf(item.id);
    if (before === value) return;
    put(this.ratings, item, value);
    this.tell("rated", { item, before, after: value });
    this.#waiting += 1;
    this.#changes += 1;
    const { other } = this;
    const [self, person] = [this.#self, this.#person];
    this.#queue = this.#queue
      .then(async () => {
        const user = other ?? (await this.#idOf(self));
        if (value === null) await api.unrate(user, item.id);
        else await api.rate(user, [{ item: item.id, rating: value }]);
        if (this.#person === person) put(this.#stored, item, value);
        this.#failures.delete(keyOf(item.id));
        if (other === null && self === this.#self) tellOtherTabs(self.id);
      })
      .catch((error) => {
        if (!(error instanceof Problem)) console.error(error);
        this.#doubtful = true;
        this.#failures.set(keyOf(item.id), { item, value, error, person });
      })
      .finally(() => {
        this.#waiting -= 1;
        this.settle();
      });
  }

  /** Say something about ourselves, or (null) take it back; the list follows. @param {Object<string, *>|null} about */
  async describe(about) {
    const self = this.#self;
    await this.#queue;
    await api.describe(await this.#idOf(self), about ?? {});
    if (self !== this.#self) return;
    remember("about", about);
    this.tell("described");
    tellOtherTabs(self.id);
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

  /** Show what the server has, or what it had when we last knew. @returns {Promise<boolean>} false: it came too late */
  async #correct() {
    const changes = this.#changes;
    let found = this.#stored;
    let known = false;
    try {
      found = byItem(await this.#ratingsOf(this.#self, this.other));
      known = true;
    } catch (error) {
      if (!(error instanceof Problem)) console.error(error);
    }
    if (changes !== this.#changes) return false;
    this.#doubtful = !known;
    this.#hold(found);
    this.tell("corrected");
    return true;
  }

  /** @param {Map<string, Rating>} ratings */
  #hold(ratings) {
    this.#stored = ratings;
    this.ratings = new Map(ratings);
  }

  /** Our own id; the first rating makes it, so that a mere look leaves nothing behind. @param {Self} self */
  async #idOf(self) {
    const elsewhere = () => (self === this.#self ? recall("me") : null); // another tab may be quicker
    self.id ??= elsewhere();
    if (self.id === null) {
      const { id } = await api.newUser();
      self.id ??= elsewhere() ?? id;
      if (self === this.#self) remember("me", self.id);
    }
    return self.id;
  }

  /** Another tab has rated, or begun anew. @param {Id|null} me who we are there */
  #follow(me) {
    if (this.#self.id === null) {
      this.#self.id = me;
    } else if (me === null || keyOf(me) !== keyOf(this.#self.id)) {
      this.#self = { id: me };
      this.#choices += 1; // what was chosen as the former is void
      if (this.other === null) this.#turnInto(this.#self, null, new Map());
    }
    this.tell("described"); // it may have been said there
    this.#doubtful = true;
    this.settle();
  }

  /**
   * @param {Self} self @param {Id|null} other @param {string[]|null} [skipped]
   * @param {Promise<void>} [sent] what may be theirs of what is on its way
   */
  async #load(self, other, skipped, sent = this.#queue) {
    const choice = (this.#choices += 1);
    let found = [];
    try {
      await sent;
      found = await this.#ratingsOf(self, other);
    } catch (error) {
      if (choice === this.#choices) throw error;
    }
    if (choice !== this.#choices) return; // somebody else was chosen meanwhile
    remember("me", self.id);
    if (self.id === null) remember("about", null);
    if (skipped !== undefined) remember("skipped", skipped);
    this.#turnInto(self, other, byItem(found));
  }

  /** @param {Self} self @param {Id|null} other @param {Map<string, Rating>} ratings */
  #turnInto(self, other, ratings) {
    this.#self = self;
    this.other = other;
    this.#person += 1;
    this.#changes += 1;
    this.#doubtful = false;
    this.#hold(ratings);
    this.tell("person");
  }

  /**
   * Where another model, or an empty database, stands in the place of the one that knew us, we begin again: our id may
   * be nobody's there, or that of somebody whom the model was trained on, whose ratings are not ours to change.
   * @param {Self} self @param {Id|null} other @returns {Promise<Rating[]>} newest first
   */
  async #ratingsOf(self, other) {
    const user = other ?? self.id;
    if (user === null) return [];
    try {
      const { ratings } = await api.ratings(user);
      if (other !== null || ratings.every((rating) => rating.live)) return ratings;
    } catch (error) {
      if (!(other === null && error instanceof Problem && error.status === 404)) throw error;
    }
    self.id = null;
    if (self === this.#self) remember("me", null);
    return [];
  }
}

/** @param {Map<string, Rating>} ratings @param {Item} item @param {number|null} value */
function put(ratings, item, value) {
  if (value === null) ratings.delete(keyOf(item.id));
  else ratings.set(keyOf(item.id), { item: item.id, title: item.title, rating: value });
}

/** @param {Rating[]} ratings newest first @returns {Map<string, Rating>} newest last */
function byItem(ratings) {
  return new Map(ratings.reverse().map((rating) => [keyOf(rating.item), rating]));
}

export const state = new State();
