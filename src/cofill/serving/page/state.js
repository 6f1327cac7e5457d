// What the page knows: the model, who is looking, their ratings, the list they see. The parts of the page listen.
//
// Events: "person" (somebody else, with other ratings), "rated" (one rating, shown before the server has it),
// "settled" (the server has all of them), "where" (the filter), "recommended" (the list), "failed" (a rating was not
// taken and is undone), "model" (a newer one is served).

import { api, keyOf, Problem } from "./api.js";
import { recall, remember } from "./memory.js";

/**
 * @typedef {import("./api.js").Id} Id
 * @typedef {import("./api.js").Item} Item
 * @typedef {{item: Id, title: string|null, rating: number}} Rating
 * @typedef {{item: Item, before: number|null, after: number|null}} Change
 */

class State extends EventTarget {
  /** @type {*} the answer of /v1/model */
  model = null;
  /** @type {Id|null} the user that this browser made; null before the first rating */
  me = null;
  /** @type {Id|null} somebody else, whose eyes we look through */
  other = null;
  /** @type {Map<string, Rating>} the newest last */
  ratings = new Map();
  /** @type {Item[]} */
  recommended = [];
  /** @type {Object<string, *>} conditions by column */
  where = {};

  #queue = Promise.resolve();
  #waiting = 0;

  /** @param {string} name @param {(detail: *) => void} listener */
  on(name, listener) {
    this.addEventListener(name, (event) => listener(/** @type {CustomEvent} */ (event).detail));
  }

  /** @param {string} name @param {*} [detail] */
  tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  get user() {
    return this.other ?? this.me;
  }

  /** @param {Id} id @returns {number|null} */
  ratingOf(id) {
    return this.ratings.get(keyOf(id))?.rating ?? null;
  }

  /** Find the model, and ourselves as we were when the page was last open. */
  async start() {
    this.model = await api.model();
    this.me = recall("me");
    await this.#load();
  }

  /** A newer model may have taken the place of the one we know. @param {string} version */
  async noticeVersion(version) {
    if (version === this.model.version) return;
    this.model = await api.model();
    this.tell("model");
  }

  /** @param {Id|null} other null: back to oneself */
  async become(other) {
    const before = this.other;
    this.other = other;
    try {
      await this.#load();
    } catch (error) {
      this.other = before;
      throw error;
    }
  }

  /** Leave the user that we were and be nobody yet. @returns {() => Promise<void>} takes it back */
  async startAnew() {
    const before = { me: this.me, skipped: recall("skipped") };
    await this.#be(null, []);
    return () => this.#be(before.me, before.skipped);
  }

  /**
   * Rate, rate otherwise, or (null) take a rating back. Shown at once, sent in order.
   * @param {Item} item @param {number|null} value
   */
  rate(item, value) {
    const before = this.ratingOf(item.id);
    if (before === value) return;
    this.#put(item, value);
    this.#waiting += 1;
    const { other } = this;
    this.#queue = this.#queue
      .then(async () => {
        const user = other ?? (await this.#myself());
        if (value === null) await api.unrate(user, item.id);
        else await api.rate(user, [{ item: item.id, rating: value }]);
      })
      .catch((error) => {
        if (!(error instanceof Problem)) console.error(error);
        if (this.other === other && this.ratingOf(item.id) === value) this.#put(item, before);
        this.tell("failed", { item, value, error });
      })
      .finally(() => {
        this.#waiting -= 1;
        if (this.#waiting === 0) this.tell("settled");
      });
  }

  /** @param {Item} item @param {number|null} value */
  #put(item, value) {
    const key = keyOf(item.id);
    const before = this.ratings.get(key)?.rating ?? null;
    if (value === null) this.ratings.delete(key);
    else this.ratings.set(key, { item: item.id, title: item.title, rating: value });
    this.tell("rated", { item, before, after: value });
  }

  /** Our own id; the first rating makes it, so that a mere look leaves nothing behind. */
  async #myself() {
    if (this.me === null) {
      this.me = (await api.newUser()).id;
      remember("me", this.me);
    }
    return this.me;
  }

  /** @param {Id|null} me @param {string[]|null} skipped */
  async #be(me, skipped) {
    this.me = me;
    this.other = null;
    remember("me", me);
    remember("skipped", skipped);
    await this.#load();
  }

  async #load() {
    const found = this.user === null ? [] : await this.#ratingsOf(this.user);
    this.ratings = new Map(found.reverse().map((rating) => [keyOf(rating.item), rating]));
    this.tell("person");
  }

  /**
   * Where another model, or an empty database, stands in the place of the one that knew us, we begin again: our id may
   * be nobody's there, or that of somebody whom the model was trained on, whose ratings are not ours to change.
   * @param {Id} user @returns {Promise<Rating[]>} newest first
   */
  async #ratingsOf(user) {
    const own = this.other === null;
    try {
      const { ratings } = await api.ratings(user);
      if (!own || ratings.every((rating) => rating.live)) return ratings;
    } catch (error) {
      if (!(own && error instanceof Problem && error.status === 404)) throw error;
    }
    this.me = null;
    remember("me", null);
    return [];
  }
}

export const state = new State();
