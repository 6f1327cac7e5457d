// What the page speaks of, by the setting --words of the server: films are seen, books are read.

/**
 * @typedef {{rate: string, choose: string, unknown: string, search: string, map: string, square: boolean}} Wording
 * @typedef {{words: string, image_host: string[]}} PageSettings
 */

/** @type {Object<string, Wording>} */
const WORDINGS = {
  things: {
    rate: "Rate what you know", choose: "Choose what you know", unknown: "Don’t know it", search: "Search",
    map: "A map of everything", square: false,
  },
  films: {
    rate: "Rate films you have seen", choose: "Choose films you have seen", unknown: "Not seen", search: "Search films",
    map: "A map of all films", square: false,
  },
  books: {
    rate: "Rate books you have read", choose: "Choose books you have read", unknown: "Not read", search: "Search books",
    map: "A map of all books", square: false,
  },
  music: {
    rate: "Rate music you know", choose: "Choose music you know", unknown: "Not heard", search: "Search music",
    map: "A map of all music", square: true,
  },
  games: {
    rate: "Rate games you have played", choose: "Choose games you have played", unknown: "Not played",
    search: "Search games", map: "A map of all games", square: false,
  },
  products: {
    rate: "Rate what you have tried", choose: "Choose what you have", unknown: "Not tried", search: "Search products",
    map: "A map of all products", square: true,
  },
};

/** @type {PageSettings} */
let settings = { words: "things", image_host: [] };

/** Ask what the server was started with; it needs no key. */
export async function loadSettings() {
  const answer = await fetch("page/settings.json");
  if (answer.ok) settings = await answer.json();
}

/** @returns {Wording} */
export function wording() {
  return WORDINGS[settings.words] ?? WORDINGS.things;
}

/** Whether the server lets us show a picture from there: else the browser would refuse it. @param {string} address */
export function mayShow(address) {
  if (/^data:image\//.test(address) || /^\/(?!\/)/.test(address)) return true;
  try {
    const { origin, protocol, hostname, port } = new URL(address);
    return settings.image_host.some((host) => {
      if (!host.includes("://*.")) return new URL(host).origin === origin;
      const any = new URL(host.replace("*.", "any."));
      return any.protocol === protocol && any.port === port && hostname.endsWith(any.hostname.slice("any".length));
    });
  } catch {
    return false;
  }
}
