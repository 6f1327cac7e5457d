// Elements are made here and nowhere else. Strings only ever become text nodes or attribute values, so no title or id
// can turn into markup.

const SVG = "http://www.w3.org/2000/svg";
const GLIDE = { duration: 480, easing: "cubic-bezier(.2, .8, .2, 1)" };

/** Of `properties`, onX is a listener, `style` has custom properties, and the rest are attributes. */
function build(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, String(one));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  fill(element, ...children);
  return element;
}

export const h = (tag, properties = {}, ...children) => build(document.createElement(tag), properties, children);
export const svg = (tag, properties = {}, ...children) => build(document.createElementNS(SVG, tag), properties, children);

/** A button that is not there to send a form. */
export const button = (properties, ...children) => h("button", { type: "button", ...properties }, ...children);

/** Replace the children of an element: nodes, texts, numbers, or lists of them; null and false are left out. */
export function fill(element, ...children) {
  const shown = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  element.replaceChildren(...shown.map((child) => (child instanceof Node ? child : String(child))));
}

let counter = 0;

/** An id that no other element has. */
export const freshId = (prefix) => `${prefix}-${(counter += 1)}`;

const announcer = document.getElementById("announcer");

/** Say something to those who listen instead of looking. */
export function announce(text) {
  inFront(announcer).textContent = text;
}

/** Put an element where an open dialog does not make it inert. */
export function inFront(element) {
  const host = document.querySelector("dialog[open]") ?? document.body;
  if (element.parentElement !== host) host.append(element);
  return element;
}

/** A dialog in the middle, on a phone from below: the browser's own, which keeps the focus inside and gives it back. */
export function makeDialog(label, className, onclose = () => {}) {
  const body = h("div", { class: "dialog-body" });
  const dialog = h("dialog", {
    class: className, "aria-label": label, onclose,
    onpointerdown: (event) => event.target === dialog && dialog.close(), // beside it, on the backdrop
  }, button({ class: "close", "aria-label": "Close", onclick: () => dialog.close() }, "×"), body);
  document.body.append(dialog);
  return { dialog, body };
}

/** Replace the children of a list: those that stay glide to their new places, and the focus stays in the list. */
export function rearrange(list, children) {
  const focused = document.activeElement;
  const place = [...list.children].findIndex((child) => child.contains(focused));
  const before = new Map([...list.children].map((child) => [child, child.getBoundingClientRect()]));
  list.replaceChildren(...children);
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
    for (const child of children) glide(child, before.get(child));
  }
  if (place < 0 || focused === document.activeElement) return;
  if (list.contains(focused)) focused.focus({ preventScroll: true }); // an element that is moved loses it
  else list.children[Math.min(place, children.length - 1)]?.querySelector("rating-control")?.focus({ preventScroll: true });
}

function glide(child, old) {
  const now = child.getBoundingClientRect();
  const from = old ? { transform: `translate(${old.left - now.left}px, ${old.top - now.top}px)` }
    : { opacity: 0, transform: "translateY(12px)" };
  if (!old || Math.hypot(old.left - now.left, old.top - now.top) > 1) child.animate([from, {}], GLIDE);
}
