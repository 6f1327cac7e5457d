// The server's answers, or a Problem with a sentence that can be shown.

/**
 * @typedef {string|number|object} Id  an object is an integer that JavaScript numbers cannot hold (JSON.rawJSON)
 * @typedef {{id: Id, title: string|null, attributes?: Object<string, *>, ratings?: number}} Item
 * @typedef {{query?: Object<string, *>, body?: *, signal?: AbortSignal}} Request
 */

const KEY = "cofill.key";

/** What went wrong, as the server told it (RFC 9457), or as we found it: status 0 is a server out of reach. */
export class Problem extends Error {
  /** @param {number} status @param {string} detail */
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Tells "reached" and "unreached". */
export const connection = new EventTarget();

/** @type {(refused: boolean) => Promise<string|null>} */
let askForKey = async () => null;
/** @type {Promise<string|null>|null} several requests that are refused at once ask once */
let asking = null;

/** @param {(refused: boolean) => Promise<string|null>} ask */
export function whenUnauthorized(ask) {
  askForKey = ask;
}

/** An id as text: what a map in memory and a query have. @param {Id} id */
export function keyOf(id) {
  return typeof id === "object" ? id.rawJSON : String(id);
}

/** Integer ids beyond 2^53 stay exact where the browser can do that. @param {string} text */
export function parseExactly(text) {
  return JSON.parse(text, (_, value, context) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context && JSON.rawJSON
      ? JSON.rawJSON(context.source)
      : value,
  );
}

/** @param {string} method @param {string} path @param {Request} request @returns {Promise<*>} */
async function call(method, path, { query = {}, body, signal } = {}) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined) words.append(name, typeof value === "object" ? keyOf(value) : value);
  }
  const address = words.size ? `v1/${path}?${words}` : `v1/${path}`; // relative: a proxy may serve us in a folder
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const response = await reach(address, {
      method,
      signal,
      headers: {
        ...(key ? { Authorization: `Bearer ${key}` } : {}),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
    if (response.status === 401 && (await newKey(key))) continue;
    if (response.status === 204) return null;
    const text = await response.text();
    if (response.ok) return parseExactly(text);
    throw problem(response, text);
  }
}

/** @param {string} address @param {RequestInit} options */
async function reach(address, options) {
  try {
    const response = await fetch(address, options);
    connection.dispatchEvent(new Event("reached"));
    return response;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    connection.dispatchEvent(new Event("unreached"));
    throw new Problem(0, "The server cannot be reached.");
  }
}

/** Whether there is another key than the one refused. @param {string|null} refused */
async function newKey(refused) {
  if (sessionStorage.getItem(KEY) !== refused) return true; // another request was told it meanwhile
  asking ??= askForKey(refused !== null).finally(() => (asking = null));
  const key = await asking;
  if (key === null) return false;
  sessionStorage.setItem(KEY, key);
  return true;
}

/** @param {Response} response @param {string} text */
function problem(response, text) {
  let detail = `The server answered ${response.status}.`;
  try {
    const told = JSON.parse(text);
    detail = told.detail || told.title || detail;
  } catch {
    // Not one of ours: a proxy in between, say. The status has to do.
  }
  return new Problem(response.status, detail);
}

/** @param {unknown} error @returns {boolean} whether it is only that we changed our mind */
export function aborted(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

export const api = {
  model: () => call("GET", "model"),
  starters: (n) => call("GET", "starters", { query: { n } }),
  recommendations: (body, signal) => call("POST", "recommendations", { body, signal }),
  why: (user, item, by, signal) => call("GET", "why", { query: { user, item, by }, signal }),
  predictions: (pairs, signal) => call("POST", "predictions", { body: { pairs }, signal }),
  items: (query, n, signal) => call("GET", "items", { query: { query, n }, signal }),
  item: (id, signal) => call("GET", "item", { query: { id }, signal }),
  map: () => call("GET", "map"),
  users: (query, n, signal) => call("GET", "users", { query: { query: query || null, n }, signal }),
  newUser: () => call("POST", "users", { body: {} }),
  describe: (id, features) => call("PUT", "user", { body: { id, features } }),
  ratings: (user) => call("GET", "ratings", { query: { user } }),
  rate: (user, ratings) => call("PUT", "ratings", { body: { user, ratings } }),
  unrate: (user, item) => call("DELETE", "ratings", { query: { user, item } }),
};
