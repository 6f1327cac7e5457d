// The reference of the API, drawn from openapi.json. Strings only ever become text nodes and attribute values.

const KEY = "cofill.key"; // where the page keeps the key of this tab
const DEEPEST = 5;
const ANY = 2 ** 53; // a bound that is greater is one of the computer's

/** @param {string} tag @param {Object<string, string>} attributes @param {...(Node|string)} children */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const main = /** @type {HTMLElement} */ (document.getElementById("main"));

/** @param {boolean} refused whether a key was tried */
async function load(refused = false) {
  const key = sessionStorage.getItem(KEY);
  let response;
  try {
    response = await fetch("openapi.json", { headers: key ? { Authorization: `Bearer ${key}` } : {} });
  } catch {
    main.replaceChildren(h("p", { class: "wrong", role: "alert" }, "The server cannot be reached."));
    return;
  }
  if (response.status === 401) askForKey(refused);
  else if (response.ok) draw(await response.json());
  else main.replaceChildren(h("p", { class: "wrong", role: "alert" }, `The server answered ${response.status}.`));
}

/** @param {boolean} refused */
function askForKey(refused) {
  const input = h("input", { type: "password", "aria-label": "API key", autocomplete: "off", required: "" });
  const form = h("form", {}, input, h("button", { type: "submit" }, "Continue"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEY, /** @type {HTMLInputElement} */ (input).value.trim());
    load(true);
  });
  main.replaceChildren(
    h("h1", {}, "This server asks for a key"),
    h("p", refused ? { class: "wrong", role: "alert" } : {},
      refused ? "That key was not accepted. Check it, and try again." : "It stays in this tab only."),
    form,
  );
  input.focus();
}

/** @param {*} api the document */
function draw(api) {
  /** @type {Map<string, HTMLElement[]>} */
  const groups = new Map(api.tags.map((/** @type {*} */ tag) => [tag.name, []]));
  for (const [path, operations] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      groups.get(operation.tags[0])?.push(drawOperation(api, path, method, operation));
    }
  }
  const parts = api.tags.flatMap((/** @type {*} */ tag) => [
    h("h2", { id: tag.name }, tag.name[0].toUpperCase() + tag.name.slice(1)),
    h("p", {}, tag.description),
    ...(groups.get(tag.name) ?? []),
  ]);
  main.replaceChildren(
    h("h1", {}, `cofill ${api.info.version}`),
    h("p", {}, api.info.description, " ", h("a", { href: "openapi.json" }, "openapi.json"), " has all of this for programs."),
    ...parts,
  );
  openNamed();
}

/** @param {*} api @param {string} path @param {string} method @param {*} operation */
function drawOperation(api, path, method, operation) {
  const parts = [];
  if (operation.description) parts.push(h("p", {}, operation.description));
  if (operation.parameters?.length) {
    const fields = operation.parameters.map((/** @type {*} */ one) =>
      drawField(api, one.name, { ...one.schema, description: one.description ?? one.schema.description }, one.required, 0));
    parts.push(h("h3", {}, "Query"), h("dl", {}, ...fields.flat()));
  }
  for (const [media, { schema }] of Object.entries(operation.requestBody?.content ?? {})) {
    parts.push(h("h3", {}, "Body, ", h("code", {}, media)), ...drawShape(api, schema, 0));
  }
  for (const [status, told] of Object.entries(operation.responses)) {
    if (!status.startsWith("2")) continue;
    const [media, content] = Object.entries(told.content ?? {})[0] ?? [null, null];
    parts.push(h("h3", {}, `Answer ${status}`, ...(media ? [", ", h("code", {}, media)] : [])));
    if (content?.schema) parts.push(...drawShape(api, content.schema, 0));
  }
  const lock = operation["x-right"];
  return h("details", { id: operation.operationId },
    h("summary", {}, h("span", { class: "method" }, method.toUpperCase()), h("code", {}, path),
      h("span", { class: "said" }, operation.summary), ...(lock ? [h("span", { class: "lock" }, lock)] : [])),
    h("div", {}, ...parts));
}

/** @param {*} api @param {*} schema @returns {*} what a reference stands for */
function resolved(api, schema) {
  let found = schema;
  while (found?.$ref) found = { ...api.components.schemas[found.$ref.split("/").pop()], description: schema.description };
  return found;
}

/** @param {*} api @param {*} schema @returns {string} */
function typeOf(api, schema) {
  const one = resolved(api, schema) ?? {};
  const options = one.anyOf ?? one.oneOf;
  if (options) return [...new Set(options.map((/** @type {*} */ option) => typeOf(api, option)))].join(" or ");
  if (one.enum) return one.enum.length > 8 ? "text" : one.enum.map((/** @type {*} */ value) => JSON.stringify(value)).join(" or ");
  if (one.const !== undefined) return JSON.stringify(one.const);
  if (one.type === "array") return `list of ${typeOf(api, one.items)}`;
  return { string: "text", integer: "whole number", object: "object", null: "null" }[one.type] ?? one.type ?? "anything";
}

/** @param {*} schema @returns {string} its limits in words */
function limits(schema) {
  const all = [schema, ...(schema.anyOf ?? [])];
  const of = (/** @type {string} */ name) => all.find((one) => one[name] !== undefined)?.[name];
  const words = [];
  const ends = [of("minimum"), of("maximum")];
  if (ends.some((end) => end !== undefined && Math.abs(end) < ANY)) words.push(`${ends[0] ?? ""} to ${ends[1] ?? ""}`);
  if (of("maxItems") !== undefined) words.push(`at most ${of("maxItems").toLocaleString("en")}`);
  if (of("maxLength") !== undefined) words.push(`at most ${of("maxLength").toLocaleString("en")} characters`);
  if (schema.default !== undefined && schema.default !== null) words.push(`default ${JSON.stringify(schema.default)}`);
  return words.length ? `, ${words.join(", ")}` : "";
}

/** @param {*} api @param {string} name @param {*} schema @param {boolean} needed @param {number} depth @returns {Node[]} */
function drawField(api, name, schema, needed, depth) {
  const own = resolved(api, schema);
  const term = h("dt", {}, h("code", {}, name), h("span", { class: "type" }, typeOf(api, own) + limits(own)));
  if (needed) term.append(" ", h("span", { class: "needed" }, "needed"));
  return [term, h("dd", {}, own.description ?? "", ...drawShape(api, own, depth + 1))];
}

/** The fields of an object, or of those in a list. @param {*} api @param {*} schema @param {number} depth @returns {Node[]} */
function drawShape(api, schema, depth) {
  const own = resolved(api, schema) ?? {};
  if (depth > DEEPEST) return [];
  if (own.properties) {
    const fields = Object.entries(own.properties).map(([name, of]) =>
      drawField(api, name, of, (own.required ?? []).includes(name), depth));
    return [h("dl", {}, ...fields.flat())];
  }
  if (own.items) return drawShape(api, own.items, depth);
  return (own.anyOf ?? []).flatMap((/** @type {*} */ option) => drawShape(api, option, depth));
}

function openNamed() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named instanceof HTMLDetailsElement) named.open = true;
  named?.scrollIntoView();
}

addEventListener("hashchange", openNamed);
load();
