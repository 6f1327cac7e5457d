// The map: to wander in by pointer or wheel, or by the arrow keys from neighbour to neighbour.

import { api, keyOf } from "./api.js";
import { announce, button, fill, h, svg } from "./dom.js";
import { openItem } from "./route.js";
import { state } from "./state.js";
import { loading, nothing, skeletons } from "./status.js";
import { ratingInWords, titleAndYear, titleOf } from "./words.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const NEARER = 1.6;
const CLOSEST = 1 / 40; // of the whole
const STILL = 6; // pixels that a click may slip
const MARGIN = 0.06;
const LINE = 16;
const LONGEST = 28;
const HELP = "Drag to move, scroll to come nearer, click to open. By keyboard: arrow keys go to the next item in that "
  + "direction, Enter opens it, + and − come nearer and go farther, 0 shows everything.";

export function mapView() {
  const place = h("div", {});
  const show = ({ items }) => (items.length ? wander(items) : nothing("There is nothing to draw."));
  const load = () => loading(place, api.map, show, skeletons(1, "map"));
  state.on("model", load);
  load();
  return h("div", { class: "map-view" }, h("h1", {}, "A map of everything"),
    h("p", { class: "note" }, "What the model finds alike lies close together."), place);
}

function wander(items) {
  const most = Math.max(1, ...items.map((item) => item.ratings));
  const groups = [...new Set(items.map((item) => item.group))].filter((group) => group !== null);
  const colour = (group) => `var(--group-${group === null ? "other" : groups.indexOf(group)})`;
  // Places are from 0 to 1, upwards; the best known come first, and are drawn last.
  const dots = items.map((item) => ({ item, x: item.x, y: 1 - item.y })).sort((a, b) => b.item.ratings - a.item.ratings);
  const pen = document.createElement("canvas").getContext("2d"); // only to measure
  pen.font = `600 12px ${getComputedStyle(document.body).fontFamily}`;
  for (const dot of dots) {
    dot.circle = svg("circle", {
      style: { "--key": colour(dot.item.group) }, onclick: () => slipped <= STILL && openItem(dot.item.id),
    }, svg("title", {}, titleOf(dot.item)));
    dot.size = 2 + 6 * Math.sqrt(dot.item.ratings / most);
    const { title } = titleAndYear(dot.item);
    dot.title = title.length > LONGEST ? `${title.slice(0, LONGEST - 1).trimEnd()}…` : title;
    dot.width = pen.measureText(dot.title).width;
  }
  const titles = svg("g", {});
  const picture = svg("svg", {
    class: "map", tabindex: 0, role: "application", "aria-label": "Map of items", "aria-describedby": "map-help",
    onkeydown: key, onfocus: () => current === null && picture.matches(":focus-visible") && go(dots[0]),
    onpointerdown: (event) => {
      slipped = 0;
      if (event.button === 0) held = event;
    },
    onpointermove: (event) => {
      if (held === null) return;
      const [dx, dy] = [event.clientX - held.clientX, event.clientY - held.clientY];
      slipped += Math.hypot(dx, dy);
      if (slipped > STILL) picture.setPointerCapture(event.pointerId);
      held = event;
      [view.x, view.y] = [view.x - dx / (view.scale * wide()), view.y - dy / view.scale];
      draw();
    },
    onpointerup: () => (held = null), onpointercancel: () => (held = null),
    onwheel: (event) => {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0016)), event.offsetX, event.offsetY);
    },
  }, dots.map((dot) => dot.circle).reverse(), titles);

  const view = { x: 0.5, y: 0.5, scale: 0, whole: 0 }; // what lies in the middle, and pixels a unit
  let current = null;
  let held = null; // the pointer, as it was last
  let slipped = 0;

  const size = () => [picture.clientWidth, picture.clientHeight];
  /** How far the sides are pulled apart to fill the room. */
  const wide = () => Math.max(1, Math.min(2, size()[0] / size()[1]));
  const onScreen = ({ x, y }) => [
    ((x - view.x) * view.scale) * wide() + size()[0] / 2, (y - view.y) * view.scale + size()[1] / 2];

  function whole() {
    view.whole = (Math.min(size()[0] / wide(), size()[1])) * (1 - 2 * MARGIN);
    Object.assign(view, { x: 0.5, y: 0.5, scale: view.whole });
    draw();
  }

  /** Nearer (or farther) around a point that stays where it is. */
  function zoom(factor, px = size()[0] / 2, py = size()[1] / 2) {
    const next = Math.min(view.whole / CLOSEST, Math.max(view.whole * 0.6, view.scale * factor));
    const by = 1 / view.scale - 1 / next;
    view.x += ((px - size()[0] / 2) / wide()) * by;
    view.y += (py - size()[1] / 2) * by;
    view.scale = next;
    draw();
  }

  function draw() {
    const near = (view.scale / view.whole) ** 0.35;
    const recommended = new Set(state.recommended.map((item) => keyOf(item.id)));
    for (const dot of dots) {
      const [x, y] = onScreen(dot);
      dot.at = [x, y];
      dot.recommended = recommended.has(keyOf(dot.item.id));
      dot.rated = state.ratings.has(keyOf(dot.item.id));
      dot.circle.classList.toggle("rated", dot.rated);
      dot.circle.classList.toggle("recommended", dot.recommended);
      dot.circle.classList.toggle("current", dot === current);
      for (const [name, value] of Object.entries({ cx: x, cy: y, r: dot.size * near })) dot.circle.setAttribute(name, value);
    }
    fill(titles, written(near));
  }

  /** As many titles as fit, none over another: first of what is marked, then of what is known best. */
  function written(near) {
    const taken = [];
    const some = Math.round((size()[0] < 500 ? 14 : 40) * near ** 5);
    const marked = (dot) => dot === current || dot.rated || dot.recommended;
    const order = [current, ...dots.filter(marked), ...dots.slice(0, 20 * some)].filter(Boolean);
    return [...new Set(order)].map((dot) => {
      const [x, y] = dot.at;
      if (taken.length >= some || x < 0 || y < 0 || y > size()[1]) return null;
      const left = x + dot.size * near + 5;
      const right = left + dot.width + 8; // with the halo around it
      const covers = (one) => left < one.right && one.left < right && Math.abs(one.y - y) < LINE;
      if (right > size()[0] || taken.some(covers)) return null;
      taken.push({ left, right, y });
      return svg("text", { x: left, y: y + 4, class: marked(dot) && "marked" }, dot.title);
    });
  }

  function go(dot) {
    current = dot;
    const [x, y] = onScreen(dot);
    if (x < 40 || y < 40 || x > size()[0] - 40 || y > size()[1] - 40) Object.assign(view, { x: dot.x, y: dot.y });
    draw();
    const rating = state.ratingOf(dot.item.id);
    announce([titleOf(dot.item), dot.item.group, rating !== null && `you gave it ${ratingInWords(rating)}`,
      dot.recommended && "recommended"].filter(Boolean).join(", "));
  }

  /** The neighbour to the left, right, above or below. */
  function next([dx, dy]) {
    const away = dots.flatMap((dot) => {
      const [x, y] = [(dot.x - current.x) * wide(), dot.y - current.y];
      const [along, aside] = [x * dx + y * dy, Math.abs(x * dy - y * dx)];
      return along > 0 && aside <= along ? [{ dot, far: along + aside }] : [];
    });
    return away.length ? away.reduce((best, one) => (one.far < best.far ? one : best)).dot : null;
  }

  function key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in ARROWS) {
      const to = current === null ? dots[0] : next(ARROWS[event.key]);
      if (to) go(to);
      else announce("Nothing farther that way.");
    } else if (event.key === "Enter" && current) openItem(current.item.id);
    else if (event.key === "+" || event.key === "=") zoom(NEARER, ...(current?.at ?? []));
    else if (event.key === "-") zoom(1 / NEARER, ...(current?.at ?? []));
    else if (event.key === "0") whole();
    else return;
    event.preventDefault();
  }

  new ResizeObserver(() => size()[0] > 0 && (view.scale ? draw() : whole())).observe(picture);
  state.on("rated corrected person recommended", () => view.scale > 0 && picture.isConnected && draw());
  const control = (label, sign, onclick) => button({ "aria-label": label, title: label, onclick }, sign);
  return [
    h("div", { class: "map-place" }, picture, h("div", { class: "zoom" }, control("Nearer", "+", () => zoom(NEARER)),
      control("Farther", "−", () => zoom(1 / NEARER)), control("Show everything", "⤢", whole))),
    h("p", { class: "legend" },
      h("span", { class: "key rated-key" }, "rated"), h("span", { class: "key recommended-key" }, "recommended"),
      [...groups, ...(items.some((item) => item.group === null) ? [null] : [])].map((group) =>
        h("span", { class: "key group-key", style: { "--key": colour(group) } }, group ?? "Other"))),
    h("p", { class: "muted small", id: "map-help" }, HELP),
  ];
}
