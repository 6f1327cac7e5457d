// A dialog in the middle (on a phone, from below): the browser's own, which keeps the focus inside and gives it back.

import { h } from "./dom.js";

/**
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
