// The cover of an item: its picture where it has one, else one that is drawn, always the same for the same title.

import { keyOf } from "./api.js";
import { h } from "./dom.js";
import { state } from "./state.js";
import { titleAndYear } from "./words.js";

const MOTIFS = ["bands", "hills"]; // in page.css
const LETTERS = 11_000; // room for a title in hundredths of the width, squared, by the size of a letter
const LARGEST = 15;

/** `titled`: with its title set on it, where there is room to read it. */
export function cover(item, { titled = false } = {}) {
  const column = state.model.item_columns.find((one) => one.kind === "image");
  const address = column && item.attributes?.[column.name];
  const element = h("span", { class: "cover", "aria-hidden": "true" });
  element.append(typeof address === "string" && mayShow(address)
    ? h("img", { src: address, alt: "", loading: "lazy", onerror: () => element.replaceChildren(drawing(item, titled)) })
    : drawing(item, titled));
  return element;
}

function drawing(item, titled) {
  const number = hash(item.title || keyOf(item.id));
  const { title, year } = titleAndYear(item);
  const longest = Math.max(...title.split(/\s+/).map((word) => word.length));
  return h("span", {
    class: `drawn ${MOTIFS[number % 2]} ${(number >>> 1) % 3 ? "night" : "day"}`,
    style: {
      "--hue": (number >>> 3) % 360,
      "--turn": 60 * (1 + ((number >>> 12) % 5)), // to another hue
      "--slope": `${((number >>> 16) % 120) - 60}deg`,
      "--size": Math.min(LARGEST, 140 / longest, Math.sqrt(LETTERS / title.length)),
    },
  }, titled && [h("span", { class: "cover-title" }, title), year && h("span", { class: "cover-year" }, year)]);
}

/** The same number for the same text (FNV-1a, then mixed). */
function hash(text) {
  let number = 2166136261;
  for (const letter of text) number = Math.imul(number ^ letter.codePointAt(0), 16777619);
  number = Math.imul(number ^ (number >>> 15), 0x2c1b3c6d);
  return (number ^ (number >>> 13)) >>> 0;
}

/** Whether the server lets us show a picture from there: else the browser would refuse it. */
export function mayShow(address) {
  if (/^data:image\//.test(address) || /^\/(?!\/)/.test(address)) return true;
  if (!URL.canParse(address)) return false;
  const { origin, protocol, hostname, port } = new URL(address);
  return state.settings.image_host.some((host) => {
    if (!host.includes("://*.")) return new URL(host).origin === origin;
    const any = new URL(host.replace("*.", "any."));
    return any.protocol === protocol && any.port === port && hostname.endsWith(any.hostname.slice("any".length));
  });
}
