// The last day: steps by minute as bars, and a slider that shows the map of a time.
import { get, present } from "./api.js";
import { clock, h, number } from "./dom.js";

const EVERY = 30_000;

export class Timeline {
  constructor(travel) {
    this.travel = travel;
    this.history = { frames: [], minutes: [] };
    this.at = null;
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.slider = h("input", { type: "range", min: 0, max: 1, step: 1, value: 1, class: "scrub", "aria-label": "Time of the map", oninput: () => this.moved() });
    this.label = h("output", {}, "now");
    this.element = h("div", { class: "timeline" },
      h("div", { class: "head" }, h("h2", {}, "Last day"), h("span", { class: "legend" }, h("i", { class: "dot bars-bound" }), "bound", h("i", { class: "dot bars-pending" }), "became pending"), h("span", { class: "spacer" }), this.label),
      h("div", { class: "track" }, this.canvas, this.slider));
    this.observer = new ResizeObserver(() => this.draw());
  }

  async load() {
    this.observer.observe(this.element);
    clearInterval(this.timer);
    this.timer = setInterval(() => this.refresh(), EVERY);
    await this.refresh();
  }

  closed() {
    clearInterval(this.timer);
    this.observer.disconnect();
  }

  async refresh() {
    try {
      this.history = await get("history");
    } catch { return; /* The state of the connection is shown at the top. */ }
    const [from, to] = this.range();
    Object.assign(this.slider, { min: Math.floor(from), max: Math.ceil(to), disabled: !this.history.frames.length });
    this.slider.value = this.at ?? this.slider.max;
    this.draw();
    this.say();
  }

  moved() {
    this.at = this.frame()?.[0] ?? null;
    this.say();
    this.draw();
    clearTimeout(this.due);
    this.due = setTimeout(() => this.travel(this.at), 60);
  }

  // The last map that is not later than the slider; none at its end, which is the present.
  frame() {
    const value = Number(this.slider.value), { frames } = this.history;
    if (value >= Number(this.slider.max) - (this.slider.max - this.slider.min) / 200) return null;
    return frames.findLast(([at]) => at <= value) ?? frames[0] ?? null;
  }

  live() {
    this.slider.value = this.slider.max;
    this.moved();
  }

  say() {
    const frame = this.frame();
    const text = frame ? `${clock(frame[0])}: ${number(frame[2])} bound, ${number(frame[1])} pending` : "now";
    this.label.value = text;
    this.slider.setAttribute("aria-valuetext", text);
  }

  // The axis ends at the present and has the width of what is known, at least an hour.
  range() {
    const { frames, minutes } = this.history, now = present();
    const first = Math.min(frames[0]?.[0] ?? now, minutes[0]?.[0] ?? now);
    return [Math.max(now - 86_400, Math.min(first, now - 3600)), now];
  }

  draw() {
    const box = this.canvas.getBoundingClientRect();
    if (!box.width) return;
    const style = getComputedStyle(document.documentElement), ratio = window.devicePixelRatio || 1;
    this.canvas.width = box.width * ratio;
    this.canvas.height = box.height * ratio;
    const context = this.canvas.getContext("2d"), [from, to] = this.range(), height = box.height - 12;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const x = (at) => ((at - from) / (to - from)) * box.width;
    const columns = Math.max(30, Math.floor(box.width / 5)), bound = new Array(columns).fill(0), pending = new Array(columns).fill(0);
    for (const [at, steps] of this.history.minutes) {
      const column = Math.min(columns - 1, Math.floor((x(at + 30) / box.width) * columns));
      if (column < 0) continue;
      bound[column] += steps.bound ?? 0;
      pending[column] += steps.pending ?? 0;
    }
    const most = Math.max(1, ...bound.map((value, at) => value + pending[at])), width = box.width / columns;
    const scaled = (value) => (value ? Math.max(1.5, Math.sqrt(value / most) * height) : 0);
    bound.forEach((value, at) => {
      const total = scaled(value + pending[at]), lower = value + pending[at] ? (total * value) / (value + pending[at]) : 0;
      context.fillStyle = style.getPropertyValue("--accent");
      context.fillRect(at * width, height - lower, width - 1, lower);
      context.fillStyle = style.getPropertyValue("--pending");
      context.fillRect(at * width, height - total, width - 1, total - lower);
    });
    context.fillStyle = style.getPropertyValue("--line");
    context.fillRect(0, height, box.width, 1);
    context.fillStyle = style.getPropertyValue("--quiet");
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "bottom";
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      context.textAlign = part === 0 ? "left" : part === 1 ? "right" : "center";
      context.fillText(part === 1 ? "now" : clock(from + (to - from) * part).slice(0, 5), part * box.width, box.height);
    }
    if (this.at !== null) {
      context.fillStyle = style.getPropertyValue("--text");
      context.fillRect(x(this.at) - 1, 0, 2, height);
    }
  }
}
