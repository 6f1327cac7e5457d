// The key that a server open to others asks for. It is kept until the tab is closed.

import { whenUnauthorized } from "./api.js";
import { makeDialog } from "./dialog.js";
import { fill, h } from "./dom.js";

export function keyDialog() {
  whenUnauthorized((refused) => new Promise((resolve) => {
    /** @type {string|null} */
    let given = null;
    const { dialog, body } = makeDialog({
      label: "API key",
      className: "key-dialog",
      onclose: () => {
        dialog.remove();
        resolve(given);
      },
    });
    const input = /** @type {HTMLInputElement} */ (h("input", {
      type: "password", "aria-label": "API key", autocomplete: "off", required: true, autofocus: true,
    }));
    fill(body, h("form", {
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        given = input.value.trim();
        dialog.close();
      },
    },
    h("h2", {}, "This server asks for a key"),
    h("p", { class: refused ? "wrong" : "muted", role: refused ? "alert" : null }, refused
      ? "That key was not accepted. Check it, and try again."
      : ["The operator makes one with ", h("code", {}, "cofill keys"), ". It stays in this tab only."]),
    h("div", { class: "line" }, input, h("button", { type: "submit", class: "primary" }, "Continue"))));
    dialog.showModal();
  }));
}
