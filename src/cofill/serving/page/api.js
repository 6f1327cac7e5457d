// The server's answers, or a Problem with a sentence that can be shown.

const KEY = "cofill.key"; // of this tab, until it is closed

/** What went wrong, as the server told it (RFC 9457), or as we found it: status 0 is a server out of reach. */
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Tells "reached" and "unreached". */
export const connection = new EventTarget();

let askForKey = async () => null;
let asking = null; // several requests that are refused at once ask once

/** `ask` brings a key, or null; it is told whether one was refused. */
export function whenUnauthorized(ask) {
  askForKey = ask;
}

/** The next request asks for another key. */
export const forgetKey = () => sessionStorage.removeItem(KEY);

/** An id as text, also of an integer that JavaScript's numbers cannot hold. */
export const keyOf = (id) => (typeof id === "object" ? id.rawJSON : String(id));

/** Integer ids beyond 2^53 stay exact where the browser can do that. */
export function parseExactly(text) {
  return JSON.parse(text, (_, value, context) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context && JSON.rawJSON
      ? JSON.rawJSON(context.source)
      : value,
  );
}

async function call(method, path, { query = {}, body, signal } = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const words = new URLSearchParams(given.map(([name, value]) => [name, keyOf(value)]));
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const response = await reach(words.size ? `${path}?${words}` : path, { // relative: a proxy may serve us in a folder
      method,
      signal,
      headers: {
        ...(key ? { Authorization: `Bearer ${key}` } : {}),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
    if (response.status === 401 && (await newKey(key))) continue;
    const text = await response.text();
    if (!response.ok) throw problem(response, text);
    return /json/.test(response.headers.get("content-type")) ? parseExactly(text) : text;
  }
}

async function reach(address, options) {
  try {
    const response = await fetch(address, options);
    connection.dispatchEvent(new Event("reached"));
    return response;
  } catch (error) {
    if (aborted(error)) throw error;
    connection.dispatchEvent(new Event("unreached"));
    throw new Problem(0, "The server cannot be reached.");
  }
}

/** Whether there is another key than the one refused. */
async function newKey(refused) {
  if (sessionStorage.getItem(KEY) !== refused) return true; // another request was told it meanwhile
  asking ??= askForKey(refused !== null).finally(() => (asking = null));
  const key = await asking;
  if (key !== null) sessionStorage.setItem(KEY, key);
  return key !== null;
}

function problem(response, text) {
  let told = {};
  try {
    told = JSON.parse(text);
  } catch {
    // Not one of ours: a proxy in between, say. The status has to do.
  }
  return new Problem(response.status, told.detail || told.title || `The server answered ${response.status}.`);
}

/** Whether it is only that we changed our mind. */
export const aborted = (error) => error instanceof DOMException && error.name === "AbortError";

export const api = {
  settings: () => call("GET", "page/settings.json"),
  model: (model) => call("GET", "v1/model", { query: { model } }),
  starters: (n) => call("GET", "v1/starters", { query: { n } }),
  recommendations: (body, signal) => call("POST", "v1/recommendations", { body, signal }),
  why: (user, item, by) => call("GET", "v1/why", { query: { user, item, by } }),
  predictions: (pairs, signal) => call("POST", "v1/predictions", { body: { pairs }, signal }),
  items: (query, n, signal, hidden) => call("GET", "v1/items", { query: { query, n, hidden }, signal }),
  item: (id, signal) => call("GET", "v1/item", { query: { id }, signal }),
  map: () => call("GET", "v1/map"),
  users: (query, n, signal) => call("GET", "v1/users", { query: { query: query || null, n }, signal }),
  newUser: () => call("POST", "v1/users", { body: {} }),
  describe: (id, features) => call("PUT", "v1/user", { body: { id, features } }),
  ratings: (user) => call("GET", "v1/ratings", { query: { user } }),
  rate: (user, item, rating) => call("PUT", "v1/ratings", { body: { user, ratings: [{ item, rating }] } }),
  unrate: (user, item) => call("DELETE", "v1/ratings", { query: { user, item } }),
  // for the operator:
  events: (n) => call("GET", "v1/events", { query: { n } }),
  clickThrough: () => call("GET", "v1/click-through"),
  reload: (model) => call("POST", "v1/model/reload", { query: { model } }),
  rollBack: (model) => call("POST", "v1/model/rollback", { query: { model } }),
  trainings: () => call("GET", "v1/model/trainings"),
  retrain: () => call("POST", "v1/model/retrain"),
  available: (id, available) => call("PUT", "v1/item", { body: { id, available } }),
};
