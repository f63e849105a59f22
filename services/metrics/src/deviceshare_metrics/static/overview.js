// The first view: tiles per model, the map with its timeline, queues and the largest groups of waiting pods.
import { get, name as quoted } from "./api.js";
import { amount, asOf, badge, bar, clock, cordonText, h, link, memory, number, panel, path, percent, shortModel, sum } from "./dom.js";
import { HeatMap } from "./map.js";
import { NUMBERS, freeShare, node as decodeNode, totals, usage } from "./model.js";
import { Timeline } from "./timeline.js";

const ORDERS = {
  name: ["name", (a, b) => a.name.localeCompare(b.name)],
  free: ["free capacity", (a, b) => freeShare(b) - freeShare(a) || a.name.localeCompare(b.name)],
};
const SIDE = 5000;  // milliseconds; the lists cost the service a snapshot of the cluster
const METRICS = { memory: "memory", cores: "cores", slots: "shares" };

export class Overview {
  constructor(app) {
    this.app = app;
    this.past = null;
    this.tiles = h("div", { class: "tiles", role: "list", tabindex: 0, "aria-label": "Models" });
    this.canvas = h("canvas", { tabindex: 0, role: "application", "aria-roledescription": "heat map",
      "aria-label": "Cards. Arrow keys select a card, Enter opens its node. The view Nodes has the same as a table." });
    this.ring = h("div", { class: "ring", hidden: true });
    this.tip = h("div", { class: "tip", hidden: true });
    this.spoken = h("div", { class: "hidden", "aria-live": "polite" });
    this.holder = h("div", { class: "canvas" }, this.canvas, this.ring);
    this.queues = h("div", { class: "queues" });
    this.waiting = h("div", { class: "groups" });
    this.map = new HeatMap(this.canvas, this.ring, {
      choose: (found, byKey) => this.choose(found, byKey),
      open: (found) => { location.hash = path("nodes", found.place.node.name); },
    });
    this.timeline = new Timeline((at) => this.travel(at));
    this.details = new Map();
    const choice = (label, options, key) => h("label", { class: "choice" }, label,
      h("select", { onchange: (event) => this.app.setFilter(key, event.target.value) },
        Object.entries(options).map(([value, text]) => h("option", { value, selected: this.app.filters[key] === value }, text))));
    this.search = h("input", { type: "search", class: "find", placeholder: "node or model", "aria-label": "Filter by node or model", value: this.app.filters.node ?? "",
      onchange: (event) => this.app.setFilter("node", event.target.value.trim()) });
    this.banner = h("div", { class: "past", hidden: true });
    this.element = h("div", { class: "overview" }, this.tiles,
      h("div", { class: "columns" },
        h("section", { class: "panel map", "aria-label": "Map of cards" },
          h("div", { class: "head" }, h("h2", {}, "Cards"), this.banner, h("div", { class: "spacer" }), this.legend(), this.search,
            choice("colour", METRICS, "metric"), choice("order", Object.fromEntries(Object.entries(ORDERS).map(([key, [text]]) => [key, text])), "order")),
          this.holder, this.timeline.element),
        h("div", { class: "side" }, panel("Queues", this.queues), panel("Waiting pods", this.waiting))),
      this.tip, this.spoken);
    this.observer = new ResizeObserver(() => this.resized());
  }

  legend() {
    return h("div", { class: "legend", "aria-hidden": "true" }, "free", h("i", { class: "ramp" }), "full", h("i", { class: "hatch" }), "unhealthy");
  }

  shown() {
    this.observer.observe(this.holder);
    this.whole();
    this.timeline.load();
    this.side();
    this.timer = setInterval(() => this.side(), SIDE);
  }

  closed() {
    this.observer.disconnect();
    this.timeline.closed();
    clearInterval(this.timer);
    clearTimeout(this.tipTimer);
  }

  get nodes() {
    const all = this.past ?? [...this.app.nodes.values()], { node, q } = this.app.filters;
    const wanted = (node || q || "").toLowerCase();
    return wanted ? all.filter((each) => each.name.toLowerCase().includes(wanted) || each.cards.some((card) => card.type.toLowerCase().includes(wanted))) : all;
  }

  whole() {
    const { metric, order } = this.app.filters;
    this.map.metric = metric in METRICS ? metric : "memory";
    this.map.order = ORDERS[order in ORDERS ? order : "name"][1];
    if (!this.element.isConnected) return;
    const nodes = this.nodes;
    this.map.show(nodes);
    this.drawTiles(nodes);
  }

  changed(pairs, structure) {
    if (this.past) return;
    if (structure) return this.whole();
    for (const [before, after] of pairs) this.map.change(before, after);
    this.tilesDue ||= setTimeout(() => { this.tilesDue = 0; if (!this.past) this.drawTiles(this.nodes); }, 500);
  }

  resized() {
    const box = this.holder.getBoundingClientRect();
    if (Math.floor(box.width) !== this.map.width || Math.floor(box.height) !== this.map.room) this.map.arrange();
  }

  themed() { this.map.recolor(); this.timeline.draw(); }

  drawTiles(nodes) {
    const models = totals(nodes);
    const next = models.map((model) => {
      const size = (value) => (model.unit === "memory" ? memory(value) : `${number(value)} cores`);
      const fragmented = model.free ? Math.round((100 * model.fragmented) / model.free) : 0;
      return h("article", { class: "tile", role: "listitem" },
        h("h3", {}, h("span", { class: "name", title: model.type }, shortModel(model.type)), badge(model.mode)),
        h("p", { class: "big" }, number(model.whole), h("small", {}, ` of ${number(model.cards)} free`), model.unhealthy ? h("small", { class: "bad", title: "unhealthy cards" }, h("i", { class: "hatch" }), number(model.unhealthy), h("span", { class: "hidden" }, " unhealthy")) : null, model.cordoned ? h("small", { class: "warn", title: "cordoned cards" }, `${number(model.cordoned)} cordoned`) : null),
        model.memory ? h("div", { class: "row" }, h("span", {}, "memory"), bar(model.memoryUsed, model.memory, `memory of ${model.key}`), h("span", {}, percent(model.memoryUsed, model.memory))) : null,
        model.cores ? h("div", { class: "row" }, h("span", {}, "cores"), bar(model.coresUsed, model.cores, `cores of ${model.key}`), h("span", {}, percent(model.coresUsed, model.cores))) : null,
        h("p", { class: "facts" }, h("span", { title: "largest share that a pod could get of one card" }, "largest ", h("b", {}, size(model.largest))),
          h("span", { title: "fragmented: the share of free capacity that is on partly used cards" }, "frag. ", h("b", {}, `${fragmented}%`))),
        h("p", { class: "facts" }, h("span", { title: `nodes on which at least ${NUMBERS.join(", ")} cards are wholly free; the most on one node is ${model.most}` }, `nodes with ${NUMBERS.join("/")} free `, h("b", {}, model.onNodes.join("/")))));
    });
    this.tiles.replaceChildren(...(next.length ? next : [h("p", { class: "quiet" }, this.app.nodes.size ? "No node matches the filter." : "No cards yet.")]));
  }

  async side() {
    try {
      const { namespace, queue } = this.app.filters;
      const [queues, waiting] = await Promise.all([get("queues", { queue }), get("waiting", { namespace, queue, limit: 6 })]);
      this.queues.replaceChildren(...queues.items.map(queueBars));
      const groups = waiting.items.map((group) => h("a", { class: "group", href: path("waiting") },
        h("b", {}, number(group.pods)), h("span", {}, h("strong", {}, group.group || (group.pods === 1 ? `${group.namespace}/${group.first[0]}` : group.queue || group.namespace)), h("small", {}, group.reason || "not decided yet", asOf(group.reason_at)))));
      this.waiting.replaceChildren(...(groups.length ? groups : [h("p", { class: "quiet" }, "No pod waits.")]));
    } catch (error) { this.app.notice(error.message); }
  }

  choose(found, byKey) {
    clearTimeout(this.tipTimer);
    this.tip.hidden = !found;
    if (!found) return;
    const card = found.place.node.cards[found.at];
    this.fillTip(found, card, null);
    if (byKey) this.spoken.textContent = this.tip.innerText.replaceAll("\n", ", ");
    if (!this.past) this.tipTimer = setTimeout(() => this.loadTip(found, card), 90);
  }

  async loadTip(found, card) {
    const name = found.place.node.name;
    try {
      const detail = await get(`nodes/${quoted(name)}`);
      if (this.map.selected === found) this.fillTip(found, card, detail.devices[found.at]);
    } catch { /* The node is gone: the map shows it soon. */ }
  }

  fillTip(found, card, device) {
    const { node } = found.place;
    const line = (label, value) => h("div", { class: "pair" }, h("span", {}, label), h("b", {}, value));
    this.tip.replaceChildren(
      h("h3", {}, `${node.name} · card ${card.index}`),
      h("p", { class: "quiet" }, `${shortModel(card.type)} · ${card.mode}`),
      card.healthy ? null : badge("unhealthy", "bad"), card.cordoned ? badge("cordoned", "warn") : null, node.state === "ready" ? null : badge(node.state, "warn"),
      device?.cordon ? h("p", { class: "cordon" }, cordonText(device.cordon)) : null,
      card.memory ? line("memory", `${memory(card.memoryUsed)} of ${memory(card.memory)}`) : "",
      card.cores ? line("cores", `${card.coresUsed} of ${card.cores}`) : "",
      card.slots ? line("shares", `${card.slotsUsed} of ${card.slots}`) : "",
      card.slices.length ? line("slices", card.slices.map((size) => (card.memory ? memory(size) : size)).join(", ")) : "",
      device?.pods.length ? h("ul", {}, device.pods.slice(0, 8).map((pod) => h("li", {}, pod)), device.pods.length > 8 ? h("li", {}, `and ${device.pods.length - 8} more`) : null) : "");
    [...this.tip.childNodes].forEach((child) => { if (child.nodeType === 3) child.remove(); });
    const ring = this.ring.getBoundingClientRect(), box = this.tip.getBoundingClientRect();
    const left = Math.min(ring.right + 10, window.innerWidth - box.width - 8);
    const top = ring.bottom + box.height + 10 < window.innerHeight ? ring.bottom + 8 : ring.top - box.height - 8;
    Object.assign(this.tip.style, { left: `${Math.max(8, left)}px`, top: `${Math.max(8, top)}px` });
  }

  // Shows the map of a time, null for the present.
  async travel(at) {
    this.wantedTime = at;
    if (at === null) this.past = null;
    else {
      try {
        const map = await get(`history/${at.toFixed(3)}`);
        if (this.wantedTime !== at) return;
        this.past = map.nodes.map(decodeNode);
        this.banner.replaceChildren(badge(`at ${clock(map.at)}`, "info"), h("button", { type: "button", class: "ghost", onclick: () => this.timeline.live() }, "back to now"));
      } catch (error) { this.app.notice(error.message); return; }
    }
    this.banner.hidden = at === null;
    this.whole();
  }
}

const ORDER = [/vgpu-memory$|gpu-memory$/, /vgpu-number$|gpu-number$|\/gpu$|npu|Ascend/, /cores$/];
export function mainResources(queue, most = 2) {
  const names = new Set([...Object.keys(queue.capability), ...Object.keys(queue.used)]);
  const rank = (name) => { const at = ORDER.findIndex((pattern) => pattern.test(name)); return at < 0 ? (name === "cpu" ? 8 : name === "memory" ? 9 : 20) : at; };
  return [...names].filter((name) => name !== "pods").sort((a, b) => rank(a) - rank(b) || a.localeCompare(b)).slice(0, most);
}

export function queueBars(queue) {
  const pending = sum(["Pending", "Gated"].map((state) => queue.pods[state] ?? 0));
  return h("div", { class: "queue" },
    h("div", { class: "row" }, link(queue.name, "queues", queue.name), queue.open ? null : badge("closed", "warn"), h("span", { class: "spacer" }),
      h("small", {}, `${number(queue.pods.Bound ?? 0)} bound${pending ? `, ${number(pending)} waiting` : ""}`)),
    mainResources(queue).map((resource) => resourceBar(queue, resource)));
}

export function resourceBar(queue, resource) {
  const used = queue.used[resource] ?? 0, deserved = queue.deserved[resource], limit = queue.capability[resource];
  const top = Math.max(used, limit ?? 0, deserved ?? 0, queue.requested[resource] ?? 0, 1);
  const marks = [];
  if (deserved !== undefined) marks.push([deserved, `deserved ${amount(resource, deserved)}`]);
  if (limit !== undefined) marks.push([limit, `capability ${amount(resource, limit)}`]);
  const parts = [`used ${amount(resource, used)}`, deserved === undefined ? "" : `deserved ${amount(resource, deserved)}`, limit === undefined ? "" : `capability ${amount(resource, limit)}`].filter(Boolean);
  return h("div", { class: "resource", title: parts.join(", ") }, h("small", {}, resource.split("/").at(-1)), bar(used, top, `${resource} of ${queue.name}: ${parts.join(", ")}`, marks),
    h("small", { class: "right" }, amount(resource, used), limit === undefined ? "" : ` / ${amount(resource, limit)}`));
}

export { usage };
