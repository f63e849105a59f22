// Elements and formats. Text from the cluster only ever becomes a text node or an attribute value.
import { present } from "./api.js";

// Control, format and unassigned characters, and separators other than the space, hide or reorder what is read. They are
// shown as the commands show them: `visible` of the library.
const HIDDEN = /(?! )[\p{C}\p{Z}]/gu;
const unit = (text) => "\\u" + text.charCodeAt(0).toString(16).padStart(4, "0");
const escaped = (character) => { const short = JSON.stringify(character).slice(1, -1); return short === character ? character.split("").map(unit).join("") : short; };
export const visible = (text) => text.replace(HIDDEN, escaped);
const shown = (value) => (typeof value === "string" ? visible(value) : value);

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "width%") element.style.width = `${Math.min(100, Math.max(0, value))}%`;
    else if (name === "left%") element.style.left = `${Math.min(100, Math.max(0, value))}%`;
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : shown(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map(shown));
  return element;
}

export const path = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");
export const link = (text, ...parts) => h("a", { href: path(...parts) }, text);

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const number = (value) => plain.format(value);
export const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)}%` : "–");

export function memory(mib) {
  if (mib >= 1024 * 1024) return `${plain.format(mib / 1024 / 1024)} TiB`;
  if (mib >= 1024) return `${plain.format(mib / 1024)} GiB`;
  return `${plain.format(mib)} MiB`;
}

const bytes = (value) => memory(value / 1024 / 1024);
export function amount(resource, value) {
  if (resource === "cpu") return plain.format(value / 1000);
  if (resource === "memory" || resource === "ephemeral-storage") return bytes(value);
  if (/memory$/.test(resource)) return memory(value);
  return plain.format(value);
}

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
export const clock = (seconds) => clockFormat.format(new Date(seconds * 1000));
const dateFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
// A time with its date, unless it is of today.
export function moment(seconds) {
  const date = dateFormat.format(new Date(seconds * 1000));
  return `${date === dateFormat.format(new Date(present() * 1000)) ? "" : `${date}, `}${clock(seconds)}`;
}
export const instant = (seconds) => `${moment(seconds)}.${String(Math.floor((seconds % 1) * 1000)).padStart(3, "0")}`;

export function duration(seconds) {
  if (seconds < 0.0005) return "0 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds >= 2 * 86400) return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

// How long ago something was true that is shown; nothing for the last seconds, and for 0, which is now.
export function asOf(at) {
  const seconds = present() - at;
  if (!at || seconds < 5) return "";
  const [count, unit] = seconds < 120 ? [seconds, "s"] : seconds < 7200 ? [seconds / 60, "min"] : [seconds / 3600, "h"];
  return ` (as of ${Math.floor(count)} ${unit} ago)`;
}

export const sum = (values) => values.reduce((total, value) => total + value, 0);
export const shortModel = (type) => type.replace(/^(NVIDIA-)+(NVIDIA )?/, "").replaceAll("-", " ") || "any model";

export function bar(used, total, label, marks = []) {
  const share = total ? (100 * used) / total : 0;
  return h("div", { class: share > 100 ? "meter over" : "meter", role: "meter", "aria-label": label,
    "aria-valuenow": Math.round(share), "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuetext": `${Math.round(share)}%` },
  h("i", { "width%": share }), marks.map(([at, name]) => h("b", { "left%": total ? (100 * at) / total : 0, title: name })));
}

export function table(caption, head, rows, empty) {
  if (!rows.length) return h("p", { class: "quiet" }, empty);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, h("table", {},
    h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell)))))));
}

export const badge = (text, kind = "") => h("span", { class: `badge ${kind}` }, text);
// Who keeps a card from getting pods, since when and why, as far as it is known.
export const cordonText = ({ by, reason, since }) => `cordoned${by ? ` by ${by}` : ""}${since ? ` since ${since}` : ""}${reason ? `: ${reason}` : ""}`;
export const panel = (title, ...children) => h("section", { class: "panel", "aria-label": title }, h("h2", {}, title), ...children);

const KINDS = { Bound: "good", Claimed: "info", Pending: "warn", Gated: "warn", OtherScheduler: "warn", Nominated: "info", Terminating: "warn", Ended: "" };
export const podBadge = (pod) => stateBadge(pod.status);
export const since = (at) => (at ? duration(Math.max(0, present() - at)) : "");
export const stateBadge = (state) => badge(state === "OtherScheduler" ? "other scheduler" : state.toLowerCase(), KINDS[state]);
