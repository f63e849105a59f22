// An explanation: why a pod is where it is, or why it waits, with the closest nodes and their cards.
import { asOf, badge, bar, duration, h, instant, link, memory, number, panel, table } from "./dom.js";

const shown = (value, unit) => {
  if (unit === "MiB") return memory(value);
  if (unit === "bytes") return memory(value / 1024 / 1024);
  if (unit === "millicores") return `${number(value / 1000)} CPUs`;
  if (unit === "percent") return `${number(value)}%`;
  return `${number(value)}${unit ? " " + (value === 1 ? unit.replace(/s$/, "") : unit) : ""}`;
};
// Texts about nodes begin with "node(s)", others with what is missing.
const counted = ({ nodes, text }) => `${number(nodes)} ${text.startsWith("node(s)") ? "" : nodes === 1 ? "node: " : "nodes: "}`;
const OF_QUEUES = /^(Queue|Cluster)/;

function refusal(each) {
  const free = each.asked ? h("div", { class: "row need" }, bar(each.free ?? 0, each.asked, "free of requested"),
    h("small", {}, `at most ${shown(each.free ?? 0, each.unit)} free of ${shown(each.asked, each.unit)} requested${each.largest ? `; the largest card that the pod may use has ${shown(each.largest, each.unit)}` : ""}`)) : null;
  return h("li", {}, h("div", {}, each.nodes ? h("b", {}, counted(each)) : null, each.text, " ", h("code", {}, each.code)),
    free, each.nearest ? h("small", {}, "closest: ", link(each.nearest, "nodes", each.nearest)) : null);
}

// Of several cards that are needed: how many of those that pass the checks before it pass this one.
const passing = ({ needed, left, considered }) => (needed > 1 && considered ? `: ${number(left ?? 0)} of ${number(considered)} cards pass, ${number(needed)} are needed` : "");

function nearNode(near) {
  const cards = near.cards ?? [];
  const most = Math.max(1, ...cards.map((card) => card.memory ?? 0));
  return h("article", { class: "near" }, h("h4", {}, link(near.node, "nodes", near.node)),
    h("ul", { class: "plain" }, (near.refusals ?? []).map((each) => h("li", {}, h("code", {}, each.code), each.asked ? ` ${shown(each.free ?? 0, each.unit)} of ${shown(each.asked, each.unit)}` : "", passing(each)))),
    cards.map((card) => h("div", { class: "resource", title: `${card.id}${card.codes?.length ? ": " + card.codes.join(", ") : ""}` },
      h("small", {}, `card ${card.index}`), bar(card.memory ?? 0, most, `free memory of card ${card.index}`),
      h("small", { class: "right" }, `${memory(card.memory ?? 0)}, ${number(card.cores ?? 0)} cores free`))));
}

const starts = (start) => (start.no_estimate ? h("p", { class: "quiet" }, `No estimate of when it starts: ${start.no_estimate}.`)
  : h("p", {}, `Starts in ${duration(start.earliest - start.at)} to ${duration(start.latest - start.at)}: some 80% of such ranges are right.`));

export function explanation(answer) {
  const found = answer.explanation, place = answer.position;
  if (!found) return answer.pod?.node ? null : panel("Why", h("p", { class: "quiet" }, "No decision yet."));
  const first = found.first_failing?.length ? found.first_failing : (found.refusals ?? []).filter((each) => each.nodes);
  const general = (found.refusals ?? []).filter((each) => !each.nodes);
  const queue = general.filter((each) => OF_QUEUES.test(each.code)), others = general.filter((each) => !OF_QUEUES.test(each.code));
  const list = (title, items) => (items.length ? [h("h3", {}, title), h("ul", { class: "reasons" }, items.map(refusal))] : null);
  const children = [
    found.message && !found.node ? h("p", { class: "message" }, found.message, asOf(found.at)) : null,
    found.nodes ? h("p", { class: "quiet" }, `It fits ${number(found.feasible ?? 0)} of ${number(found.nodes)} nodes.`) : null,
    found.why?.length ? h("ul", { class: "plain" }, found.why.map((each) => h("li", {}, each))) : null,
    answer.pod?.fragmented ? h("p", {}, `It waits only for fragmentation: enough of ${answer.pod.fragmented} is free in sum, and not on one node or card.`) : null,
    found.kept_for?.length ? h("p", {}, `Nodes are kept free for ${found.kept_for.join(", ")}, which waited too long.`) : null,
    found.gang ? h("p", {}, found.gang) : null,
    place ? h("p", {}, `Position ${number(place.position)} of ${number(place.jobs)} in its queue${place.pods_before ? `, behind ${number(place.pods_before)} ${place.pods_before === 1 ? "pod" : "pods"}` : ""}.`) : null,
    answer.start ? starts(answer.start) : null,
    list("Nodes, by the first check that they fail", first), list("Its queue", queue), list("Not decided", others),
    found.caveats?.length ? h("ul", { class: "reasons" }, found.caveats.map((each) => h("li", { class: "warn" }, each))) : null,
    found.closest?.length ? [h("h3", {}, "Closest nodes"), h("div", { class: "nears" }, found.closest.map(nearNode))] : null,
    h("p", { class: "quiet" }, `Decided${found.decided_by ? " by " + found.decided_by : ""} at ${instant(found.at)}${found.node ? "" : asOf(found.at)}.`),
  ];
  return panel(found.node ? "Why there" : "Why it waits", ...children.flat().filter(Boolean));
}

export const steps = (items) => panel("Steps", table("Steps of the pod", ["Time", "Service", "Step", "Node", "Message"],
  items.map((step) => [instant(step.time), step.service, badge(step.step), step.node ? link(step.node, "nodes", step.node) : "", step.message]), "No steps are recorded."));
