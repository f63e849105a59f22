// The heat map: one square per card on a canvas, in blocks per node, grouped by model.
import { modelOf, sameCard, usage } from "./model.js";
import { shortModel, visible } from "./dom.js";

const PITCHES = [30, 26, 22, 19, 17, 15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4];
const HEADING = 18, HEADING_WIDTH = 230, GAP_COLUMN = 14, GAP_GROUP = 3, FLASH = 700, LABELS_FROM = 15;
const STEPS = 24;

const still = window.matchMedia("(prefers-reduced-motion: reduce)");
const mix = (a, b, t) => a.map((value, at) => Math.round(value + (b[at] - value) * t));
const rgb = (color) => `rgb(${color.join(",")})`;
const parse = (text) => text.trim().match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));

function palette() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name);
  const stops = [1, 2, 3, 4].map((at) => parse(read(`--heat-${at}`)));
  const ramp = Array.from({ length: STEPS + 1 }, (_, at) => {
    const place = (at / STEPS) * (stops.length - 1), low = Math.min(stops.length - 2, Math.floor(place));
    return rgb(mix(stops[low], stops[low + 1], place - low));
  });
  return { ramp, empty: read("--heat-0"), sick: read("--sick"), text: read("--quiet"), strong: read("--text"),
    away: read("--away"), flash: read("--flash"), back: read("--panel") };
}

const distinct = (texts) => [...new Set(texts)].sort();

export function layout(groups, width, height, labels = true) {
  let last;
  for (const pitch of PITCHES) {
    const withNames = labels && pitch >= LABELS_FROM, gap = pitch >= 12 ? 12 : pitch >= 8 ? 6 : 3;
    // Groups of one row share a line, like words; larger ones take the whole width.
    let y = 0, x = 0, bottom = 0;
    const placed = [];
    for (const { title, nodes } of groups) {
      const most = Math.max(1, ...nodes.map((each) => each.cards.length));
      const columns = most <= 4 ? most : most <= 16 ? Math.ceil(most / 2) : Math.ceil(most / 4);
      const rows = Math.ceil(most / columns);
      const blockWidth = Math.max(columns * pitch, withNames ? 92 : 0) + gap;
      const blockHeight = rows * pitch + gap + (withNames ? 13 : 0);
      const perRow = Math.max(1, Math.floor((width + gap) / blockWidth));
      const lines = Math.ceil(nodes.length / perRow), room = lines > 1 ? width : Math.max(nodes.length * blockWidth, HEADING_WIDTH);
      if (x && x + room > width + gap) { x = 0; y = bottom; }
      placed.push({ title, nodes, x, y, top: y + HEADING, columns, rows, perRow, blockWidth, blockHeight, withNames, lines });
      bottom = Math.max(bottom, y + HEADING + lines * blockHeight + GAP_GROUP);
      x += room + GAP_COLUMN;
      if (lines > 1) { x = 0; y = bottom; }
    }
    last = { pitch, groups: placed, height: bottom };
    if (bottom <= height) return last;
  }
  return last;
}

export class HeatMap {
  constructor(canvas, ring, { choose, open }) {
    this.canvas = canvas;
    this.ring = ring;
    this.choose = choose;
    this.context = canvas.getContext("2d", { alpha: false });
    this.metric = "memory";
    this.order = (a, b) => a.name.localeCompare(b.name);
    this.nodes = [];
    this.places = new Map();
    this.flashes = new Map();
    this.dirty = new Set();
    this.selected = null;
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => this.select(null));
    canvas.addEventListener("click", (event) => { this.point(event); if (this.selected) open(this.selected); });
    canvas.addEventListener("keydown", (event) => this.key(event, open));
    canvas.addEventListener("blur", () => this.select(null));
  }

  show(nodes) {
    this.nodes = nodes;
    this.arrange();
  }

  arrange() {
    const groups = new Map();
    for (const each of this.nodes) {
      if (!each.cards.length) continue;
      const key = distinct(each.cards.map(modelOf)).join(", ");
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(each);
    }
    const sorted = [...groups].sort(([a, x], [b, y]) => y.length - x.length || a.localeCompare(b)).map(([, nodes]) => ({
      title: visible(distinct(nodes[0].cards.map((card) => `${shortModel(card.type)} · ${card.mode}`)).join(", ")), nodes: nodes.sort(this.order),
    }));
    const box = this.canvas.parentElement.getBoundingClientRect();
    this.width = Math.max(240, Math.floor(box.width));
    this.room = Math.max(160, Math.floor(box.height));
    this.plan = layout(sorted, this.width, this.room);
    this.height = Math.max(this.plan.height, 1);
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.places.clear();
    this.list = [];
    for (const group of this.plan.groups) {
      group.nodes.forEach((each, at) => {
        const x = group.x + (at % group.perRow) * group.blockWidth, y = group.top + Math.floor(at / group.perRow) * group.blockHeight;
        const place = { node: each, group, x, y, at: this.list.length };
        this.places.set(each.name, place);
        this.list.push(place);
      });
    }
    this.recolor();
  }

  recolor() {
    this.colors = palette();
    this.hatch = this.hatching();
    this.context.fillStyle = this.colors.back;
    this.context.fillRect(0, 0, this.width, this.height);
    for (const group of this.plan.groups) {
      const cards = group.nodes.reduce((total, each) => total + each.cards.length, 0);
      this.context.textBaseline = "middle";
      this.context.font = "600 11px system-ui, sans-serif";
      this.context.fillStyle = this.colors.strong;
      const title = fit(this.context, group.title, HEADING_WIDTH - 100);
      this.context.fillText(group.lines > 1 ? group.title : title, group.x, group.y + 8);
      const after = group.x + this.context.measureText(group.lines > 1 ? group.title : title).width;
      this.context.font = "11px system-ui, sans-serif";
      this.context.fillStyle = this.colors.text;
      this.context.fillText(`${group.nodes.length} node${group.nodes.length > 1 ? "s" : ""}, ${cards} cards`, after + 8, group.y + 8);
    }
    for (const place of this.list) this.drawNode(place);
    this.flashes.clear();
    if (this.selected) this.outline();
    performance.mark("deviceshare-painted");
  }

  hatching() {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 4;
    const context = tile.getContext("2d");
    context.fillStyle = this.colors.back;
    context.fillRect(0, 0, 4, 4);
    context.strokeStyle = this.colors.sick;
    context.lineWidth = 1.4;
    for (const at of [-4, 0, 4]) {
      context.beginPath();
      context.moveTo(at, 4);
      context.lineTo(at + 4, 0);
      context.stroke();
    }
    return this.context.createPattern(tile, "repeat");
  }

  drawNode(place) {
    const { node, group, x, y } = place;
    if (group.withNames) {
      this.context.font = "10px system-ui, sans-serif";
      this.context.textBaseline = "middle";
      this.context.fillStyle = node.state === "ready" ? this.colors.text : this.colors.away;
      this.context.fillText(fit(this.context, visible(node.name), group.blockWidth - 10), x, y + 5);
    }
    node.cards.forEach((card, at) => this.drawCard(place, card, at));
  }

  spot({ group, x, y }, at) {
    const pitch = this.plan.pitch;
    return [x + (at % group.columns) * pitch, y + (group.withNames ? 13 : 0) + Math.floor(at / group.columns) * pitch,
      pitch - (pitch >= 9 ? 2 : 1)];
  }

  drawCard(place, card, at) {
    const context = this.context, [x, y, size] = this.spot(place, at);
    const color = (value) => (value <= 0 ? this.colors.empty : this.colors.ramp[Math.max(1, Math.round(value * STEPS))]);
    if (!card.healthy) {
      context.fillStyle = this.hatch;
      context.fillRect(x, y, size, size);
      if (card.cordoned) this.strike(x, y, size);
      return;
    }
    const used = usage(card, this.metric);
    context.globalAlpha = place.node.state === "ready" ? 1 : 0.45;
    const total = card.memory || card.cores;
    if (card.slices.length && total) {
      context.fillStyle = this.colors.back;
      context.fillRect(x, y, size, size);
      context.fillStyle = this.colors.empty;
      context.fillRect(x, y, size, size);
      let left = x;
      const edge = size >= 8 ? 1 : 0.5;
      context.fillStyle = color(Math.max(0.45, used));
      for (const slice of card.slices) {
        const width = Math.min(x + size - left, (size * slice) / total);
        context.fillRect(left, y, Math.max(0.7, width - edge), size);
        left += width;
      }
    } else {
      context.fillStyle = color(used);
      context.fillRect(x, y, size, size);
    }
    context.globalAlpha = 1;
    if (card.cordoned) this.strike(x, y, size);
  }

  // Marks a cordoned card: a frame and a bar across it, whatever is used of it.
  strike(x, y, size) {
    const context = this.context, width = size >= 9 ? 2 : 1;
    context.strokeStyle = this.colors.away;
    context.lineWidth = width;
    context.strokeRect(x + width / 2, y + width / 2, size - width, size - width);
    context.beginPath();
    context.moveTo(x + width, y + size - width);
    context.lineTo(x + size - width, y + width);
    context.stroke();
  }

  // Redraws the changed cards of nodes that stay in their places, in the next frame.
  change(before, after) {
    const place = this.places.get(after.name);
    if (!place) return;
    place.node = after;
    const now = performance.now();
    after.cards.forEach((card, at) => {
      if (before.state === after.state && before.cards[at] && sameCard(before.cards[at], card)) return;
      this.dirty.add(place);
      if (!still.matches) this.flashes.set(`${after.name} ${at}`, { place, at, start: now });
    });
    this.request();
  }

  request() {
    this.frame ||= requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.frame = 0;
    if (!this.canvas.isConnected) return;
    for (const place of this.dirty) this.drawNodeCards(place);
    this.dirty.clear();
    const now = performance.now();
    for (const [key, { place, at, start }] of this.flashes) {
      const age = (now - start) / FLASH, card = place.node.cards[at];
      if (age >= 1 || !card) this.flashes.delete(key);
      if (!card) continue;
      this.drawCard(place, card, at);
      if (age >= 1) continue;
      const [x, y, size] = this.spot(place, at);
      this.context.globalAlpha = 0.85 * (1 - age);
      this.context.fillStyle = this.colors.flash;
      this.context.fillRect(x, y, size, size);
      this.context.globalAlpha = 1;
    }
    if (this.flashes.size) this.request();
  }

  drawNodeCards(place) {
    place.node.cards.forEach((card, at) => this.drawCard(place, card, at));
  }

  find(x, y) {
    for (const group of this.plan?.groups ?? []) {
      if (y < group.top || y >= group.top + group.lines * group.blockHeight || x < group.x) continue;
      const column = Math.floor((x - group.x) / group.blockWidth), row = Math.floor((y - group.top) / group.blockHeight);
      const each = column < group.perRow ? group.nodes[row * group.perRow + column] : undefined;
      const place = each && this.places.get(each.name);
      if (!place) continue;
      const [left, top] = this.spot(place, 0), pitch = this.plan.pitch;
      const at = Math.floor((y - top) / pitch) * group.columns + Math.floor((x - left) / pitch);
      return x - left < group.columns * pitch && y >= top && place.node.cards[at] ? { place, at } : null;
    }
    return null;
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    this.select(this.find(event.clientX - box.left, event.clientY - box.top));
  }

  key(event, open) {
    const moves = { ArrowLeft: -1, ArrowRight: 1 };
    const current = this.selected ?? (this.list.length ? { place: this.list[0], at: -1 } : null);
    if (!current) return;
    const { place, at } = current;
    if (event.key === "Enter" && this.selected) { open(this.selected); event.preventDefault(); return; }
    if (event.key === "Escape") { this.select(null); return; }
    let next = null;
    if (event.key in moves) {
      const to = at + moves[event.key];
      if (place.node.cards[to]) next = { place, at: to };
      else {
        const other = this.list[place.at + moves[event.key]];
        if (other) next = { place: other, at: moves[event.key] > 0 ? 0 : other.node.cards.length - 1 };
      }
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const [x, y, size] = this.spot(place, Math.max(0, at));
      const step = event.key === "ArrowDown" ? 1 : -1;
      for (let to = y + size / 2 + step * this.plan.pitch; to > 0 && to < this.height && !next; to += step * 4) {
        const found = this.find(x + size / 2, to);
        if (found && !(found.place === place && found.at === at)) next = found;
      }
    } else if (event.key === "Home") next = { place: this.list[0], at: 0 };
    else if (event.key === "End") next = { place: this.list.at(-1), at: 0 };
    else return;
    event.preventDefault();
    if (next) this.select(next, true);
  }

  select(found, byKey = false) {
    const before = this.selected;
    this.selected = found;
    if (found?.place === before?.place && found?.at === before?.at) return;
    this.outline();
    this.choose(found, byKey);
  }

  outline() {
    const found = this.selected;
    this.ring.hidden = !found;
    if (!found) return;
    const [x, y, size] = this.spot(found.place, found.at);
    Object.assign(this.ring.style, { left: `${x - 2}px`, top: `${y - 2}px`, width: `${size + 4}px`, height: `${size + 4}px` });
  }
}

function fit(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(text.slice(0, end) + "…").width > width) end -= 1;
  return text.slice(0, end) + "…";
}
