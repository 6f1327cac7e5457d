// Elements are made here and nowhere else. Strings only ever become text nodes or attribute values, so no title or id
// can turn into markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * @typedef {Node|string|number|null|undefined|false|Child[]} Child
 * @typedef {Object<string, *>} Properties  onX: a listener; class, aria-*, data-*...: attributes; `style`: custom properties
 */

/** @param {Element} element @param {Properties} properties @param {Child[]} children */
function build(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, String(one));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...texts(children));
  return element;
}

/** @param {Child[]} children @returns {(Node|string)[]} */
function texts(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

/** @param {string} tag @param {Properties} [properties] @param {...Child} children @returns {HTMLElement} */
export function h(tag, properties = {}, ...children) {
  return /** @type {HTMLElement} */ (build(document.createElement(tag), properties, children));
}

/** @param {string} tag @param {Properties} [properties] @param {...Child} children @returns {SVGElement} */
export function svg(tag, properties = {}, ...children) {
  return /** @type {SVGElement} */ (build(document.createElementNS(SVG, tag), properties, children));
}

/** Put other children in the place of those an element has. @param {Element} element @param {...Child} children */
export function fill(element, ...children) {
  element.replaceChildren(...texts(children));
}

let counter = 0;

/** An id that no other element has. @param {string} prefix */
export function freshId(prefix) {
  counter += 1;
  return `${prefix}-${counter}`;
}

/** @returns {boolean} whether somebody asked for less motion */
export function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** Say something to those who listen instead of looking. @param {string} text */
export function announce(text) {
  inFront(announcer).textContent = text;
}

const announcer = /** @type {HTMLElement} */ (document.getElementById("announcer"));

/** Put an element where an open dialog does not make it inert. @param {HTMLElement} element */
export function inFront(element) {
  const host = document.querySelector("dialog[open]") ?? document.body;
  if (element.parentElement !== host) host.append(element);
  return element;
}

/**
 * A dialog in the middle (on a phone, from below): the browser's own, which keeps the focus inside and gives it back.
 * @param {{label: string, className?: string, onclose?: () => void}} options
 * @returns {{dialog: HTMLDialogElement, body: HTMLElement}}
 */
export function makeDialog({ label, className = "", onclose = () => {} }) {
  const body = h("div", { class: "dialog-body" });
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { class: className, "aria-label": label, onclose },
    h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => dialog.close() }, "×"), body));
  dialog.addEventListener("pointerdown", (event) => {
    if (event.target === dialog) dialog.close(); // beside it, on the backdrop
  });
  document.body.append(dialog);
  return { dialog, body };
}
