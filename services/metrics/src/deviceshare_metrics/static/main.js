// Routing, filters in the address, theme, and the connection to the stream of changes.
import { Changes } from "./api.js";
import { h, number, sum, visible } from "./dom.js";
import { node as decodeNode } from "./model.js";
import { Overview } from "./overview.js";
import * as pages from "./pages.js";

const VIEWS = [["", "Map"], ["waiting", "Waiting"], ["pods", "Pods"], ["nodes", "Nodes"], ["queues", "Queues"], ["events", "Events"]];
const FILTERS = {
  "": [], waiting: ["namespace", "queue", "state"], pods: ["namespace", "queue", "node", "model", "state"], nodes: ["node", "state"],
  queues: ["queue"], events: ["namespace", "queue", "node", "state"],
};
const STATES = {
  waiting: ["Pending", "Gated", "OtherScheduler"], pods: ["Pending", "Nominated", "Claimed", "Bound", "Terminating", "Gated", "Ended", "OtherScheduler"],
  nodes: ["ready", "not_ready", "unschedulable"], events: ["seen", "pending", "claimed", "bound", "refused", "gone"],
};
const PLACEHOLDERS = { node: "node or model", namespace: "namespace", queue: "queue", model: "model of cards" };
const REFRESH = 5000;
// The pods of the view Waiting.
const waitingPods = (status) => sum(STATES.waiting.map((state) => status.pods[state] ?? 0));
const byId = (id) => document.getElementById(id);

class App {
  constructor() {
    this.nodes = new Map();
    this.filters = {};
    this.status = null;
    this.overview = new Overview(this);
    this.changes = new Changes({
      whole: (map) => this.whole(map), changed: (changes) => this.changed(changes),
      status: (status) => this.counted(status), state: (connected, reason) => this.connected(connected, reason),
    });
    window.addEventListener("hashchange", () => this.route());
    document.addEventListener("keydown", (event) => this.key(event));
    this.theme();
    this.route();
    this.changes.start();
  }

  theme() {
    const system = window.matchMedia("(prefers-color-scheme: light)"), button = byId("theme");
    const apply = () => {
      const light = (localStorage.getItem("deviceshare-theme") ?? (system.matches ? "light" : "dark")) === "light";
      document.documentElement.dataset.theme = light ? "light" : "dark";
      button.textContent = light ? "Dark" : "Light";
      if (this.view === "" && this.nodes.size && !this.name) this.overview.themed();
    };
    button.addEventListener("click", () => {
      localStorage.setItem("deviceshare-theme", document.documentElement.dataset.theme === "light" ? "dark" : "light");
      apply();
    });
    system.addEventListener("change", apply);
    apply();
  }

  whole(map) {
    this.nodes = new Map(map.nodes.map((row) => [row[0], decodeNode(row)]));
    if (this.onMap) this.overview.whole();
    else if (this.view === "nodes" && !this.name) this.render();
  }

  changed({ nodes, gone }) {
    const pairs = [];
    let structure = gone.length > 0;
    for (const row of nodes) {
      const after = decodeNode(row), before = this.nodes.get(after.name);
      if (!before || before.cards.length !== after.cards.length) structure = true;
      else pairs.push([before, after]);
      this.nodes.set(after.name, after);
    }
    for (const name of gone) this.nodes.delete(name);
    if (this.onMap) this.overview.changed(pairs, structure);
  }

  counted(status) {
    this.status = status;
    this.nav();
    const waiting = waitingPods(status);
    document.title = waiting ? `(${waiting}) deviceshare` : "deviceshare";
    this.say();
  }

  connected(connected, reason) {
    this.isLive = connected;
    this.reason = reason;
    this.say();
  }

  say() {
    const element = byId("live"), status = this.status;
    element.className = this.isLive ? "live on" : "live";
    const text = this.isLive ? (status ? `${number(sum(Object.values(status.nodes)))} nodes · ${number(status.pods.Bound)} bound · ${number(waitingPods(status))} waiting` : "live") : this.reason || "connecting";
    const bad = status && this.isLive ? [status.problems && `${status.problems} problem${status.problems > 1 ? "s" : ""}`, status.undecodable && `${status.undecodable} undecodable messages`].filter(Boolean).join(", ") : "";
    if (element.dataset.text === text + bad) return;
    element.dataset.text = text + bad;
    element.replaceChildren(h("i", { "aria-hidden": "true" }), h("span", {}, text), bad ? h("span", { class: "bad" }, ` · ${bad}`) : "");
  }

  get onMap() { return this.view === "" && this.shown === this.overview.element; }

  route() {
    const [address, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    const [view = "", ...rest] = address.split("/").map(decode);
    this.filters = Object.fromEntries(new URLSearchParams(query));
    this.view = VIEWS.some(([name]) => name === view) ? view : "";
    this.rest = rest.filter(Boolean);
    this.name = this.rest.length ? this.rest.join("/") : "";
    this.nav();
    this.filterBar();
    this.render(true);
  }

  nav() {
    const waiting = this.status ? waitingPods(this.status) : 0;
    const key = `${this.view} ${waiting}`;
    if (this.navKey === key) return;
    this.navKey = key;
    byId("nav").replaceChildren(...VIEWS.map(([view, text]) => h("a", { href: `#/${view}`, "aria-current": view === this.view ? "page" : null }, text,
      view === "waiting" && waiting ? h("b", { class: "count" }, number(waiting)) : null)));
  }

  filterBar() {
    const form = byId("filters"), names = this.name ? [] : FILTERS[this.view] ?? [];
    form.hidden = !names.length;
    const set = (name) => (event) => this.setFilter(name, event.target.value.trim());
    form.replaceChildren(...names.map((name) => (name === "state"
      ? h("select", { "aria-label": "state", onchange: set(name) }, h("option", { value: "" }, "any state"), (STATES[this.view] ?? []).map((state) => h("option", { value: state, selected: this.filters.state === state }, state.replace("_", " "))))
      : h("input", { type: "search", placeholder: PLACEHOLDERS[name], "aria-label": PLACEHOLDERS[name], value: this.filters[name] ?? "", onchange: set(name) }))),
    h("small", { class: "keys" }, "/ filter · g m map · g w waiting · g n nodes"));
    form.onsubmit = (event) => event.preventDefault();
  }

  setFilter(name, value) {
    const filters = { ...this.filters, [name]: value };
    const query = new URLSearchParams(Object.entries(filters).filter(([, each]) => each)).toString();
    location.hash = `#/${[this.view, ...this.rest].map(encodeURIComponent).join("/")}${query ? "?" + query : ""}`;
  }

  async render(fresh = false) {
    clearTimeout(this.refresh);
    const content = byId("content"), turn = (this.turn = (this.turn ?? 0) + 1);
    if (fresh) this.notice("");
    if (this.view === "") {
      if (this.shown !== this.overview.element) {
        this.shown = this.overview.element;
        content.replaceChildren(this.shown);
        this.overview.shown();
      } else { this.overview.whole(); this.overview.side(); }
      return;
    }
    if (this.shown === this.overview.element) this.overview.closed();
    const single = { pods: pages.pod, nodes: pages.node, queues: pages.queue };
    const draw = this.name ? single[this.view] : pages[this.view];
    if (fresh) { content.replaceChildren(h("p", { class: "quiet wait" }, "Loading…")); this.shown = null; }
    try {
      const elements = await draw(this, this.rest);
      if (turn !== this.turn) return;
      this.shown = h("div", { class: "page" }, elements.flat(Infinity).filter(Boolean));
      content.replaceChildren(this.shown);
      if (!fresh) return this.later();
      window.scrollTo(0, 0);
      this.later();
    } catch (error) {
      if (turn !== this.turn) return;
      content.replaceChildren(h("p", { class: "quiet failed", role: "alert" }, error.message));
      this.later();
    }
  }

  // Pages of one object follow it; lists stay as they are while they are read.
  later() {
    if (!this.name) return;
    this.refresh = setTimeout(() => {
      const scroll = window.scrollY;
      if (document.getSelection().isCollapsed && !document.hidden) this.render().then(() => window.scrollTo(0, scroll));
      else this.later();
    }, REFRESH);
  }

  notice(text) {
    const element = byId("notice");
    element.hidden = !text;
    element.textContent = visible(text ?? "");
  }

  key(event) {
    if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) {
      if (event.key === "Escape") event.target.blur?.();
      return;
    }
    if (event.key === "/") { document.querySelector("input[type=search]")?.focus(); event.preventDefault(); }
    else if (this.pending === "g") {
      const view = { m: "", w: "waiting", p: "pods", n: "nodes", q: "queues", e: "events" }[event.key];
      if (view !== undefined) location.hash = `#/${view}`;
      this.pending = "";
    } else this.pending = event.key;
  }
}

function decode(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

window.deviceshare = new App();
