// The pages: waiting pods, pods, nodes, queues and events.
import { get, name as quoted } from "./api.js";
import { amount, asOf, badge, bar, cordonText, duration, h, instant, link, memory, moment, number, panel, path, percent, podBadge, shortModel, since, stateBadge, sum, table } from "./dom.js";
import { explanation, steps } from "./explain.js";
import { totals, usage } from "./model.js";
import { mainResources, queueBars, resourceBar } from "./overview.js";

const LIMIT = 100;
const problems = (items) => (items?.length ? panel("Problems", h("ul", { class: "reasons" }, items.map((each) => h("li", { class: "bad" }, each)))) : null);
const title = (kind, name, ...more) => h("div", { class: "title" }, h("small", {}, kind), h("h1", {}, name), ...more);
const fields = (entries) => h("dl", { class: "fields" }, entries.filter(Boolean).map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
const podLink = (pod) => link(`${pod.namespace}/${pod.name}`, "pods", pod.namespace, pod.name);

// A list that is read in parts: `more` appends the next one.
async function parts(kind, query, draw) {
  const rows = [], holder = h("div", {});
  const more = async (after) => {
    const answer = await get(kind, { ...query, limit: LIMIT, continue: after });
    rows.push(...answer.items);
    holder.replaceChildren(draw(rows), answer.continue
      ? h("button", { type: "button", onclick: () => more(answer.continue) }, `Show ${LIMIT} more`) : "");
  };
  await more("");
  return holder;
}

export async function waiting(app) {
  const { namespace, queue, state } = app.filters;
  const { items } = await get("waiting", { namespace, queue, state, limit: LIMIT });
  const pods = sum(items.map((each) => each.pods));
  const group = (each) => {
    const details = h("details", { class: "waiting" },
      h("summary", {}, h("b", { class: "count" }, number(each.pods)), h("span", { class: "what" },
        h("strong", {}, each.group || (each.pods === 1 ? `${each.namespace}/${each.first[0]}` : "pods without a PodGroup")), h("small", {}, each.reason || "not decided yet", asOf(each.reason_at))),
      h("span", { class: "meta" }, each.fragmented ? badge("only fragmentation", "warn") : "", badge(each.queue || each.namespace), stateBadge(each.state), each.since ? h("small", {}, `oldest ${since(each.since)}`) : "")));
    details.addEventListener("toggle", async () => {
      if (!details.open || details.dataset.loaded) return;
      details.dataset.loaded = "yes";
      const more = each.pods - each.first.length;
      const names = h("p", { class: "names" }, each.first.map((name) => [link(name, "pods", each.namespace, name), " "]), more > 0 ? `and ${number(more)} more` : "");
      try {
        const answer = await get(`pods/${quoted(each.namespace, each.first[0])}/explain`);
        details.append(names, explanation(answer) ?? "");
      } catch (error) { details.append(names, h("p", { class: "bad" }, error.message)); }
    });
    return details;
  };
  const groups = items.map(group);
  if (groups[0]) groups[0].open = true;
  return [title("Waiting pods", items.length ? `${number(pods)} pods in ${number(items.length)} ${items.length > 1 ? "groups" : "group"}` : "No pod waits"), ...groups];
}

// Where a pod is, or where pods are evicted for it.
const nodeOf = (pod) => (pod.nominated_node ? ["nominated on ", link(pod.nominated_node, "nodes", pod.nominated_node)] : pod.node ? link(pod.node, "nodes", pod.node) : "");

// How much of the cards of each model a pod holds, or how many devices.
const heldBy = (pod) => {
  const cards = [...new Set(pod.cards.map((card) => card.type))].map((type) => `${number(sum(pod.cards.filter((card) => card.type === type).map((card) => card.part)))} × ${shortModel(type)}`);
  const claimed = pod.devices.filter((device) => device.claim).length;
  if (!cards.length) return number(pod.devices.length);
  return [...cards, ...(claimed ? [`${number(claimed)} of ResourceClaims`] : [])].join(", ");
};

export async function pods(app) {
  const { namespace, queue, node, model, state } = app.filters;
  return [title("Pods", "All pods"), await parts("pods", { namespace, queue, node, model, state }, (rows) => table("Pods", ["Pod", "State", "Age", "Waiting", "Node", "Queue", "Devices", "Reason"],
    rows.map((pod) => [podLink(pod), podBadge(pod), since(pod.created), since(pod.waiting_since), nodeOf(pod), pod.queue ? link(pod.queue, "queues", pod.queue) : "",
      heldBy(pod), h("small", {}, pod.reason ?? pod.problems[0] ?? "", asOf(pod.reason_at))]), "No pod matches the filters."))];
}

const STAGES = { seen: "Seen", queued: "Queued", decided: "Decided", claimed: "Claimed", handed_over: "Handed over", bound: "Bound" };
function life(stages) {
  let before = 0;
  return h("ol", { class: "life", "aria-label": "Life cycle" }, stages.map((stage) => {
    const took = stage.at && before ? duration(Math.max(0, stage.at - before)) : "";
    before = stage.at || before;
    const text = stage.state === "done" ? (stage.at ? instant(stage.at) : "done") : stage.state === "current" ? "now" : "–";
    return h("li", { class: stage.state, "aria-current": stage.state === "current" ? "step" : null }, h("i", { "aria-hidden": "true" }),
      h("strong", {}, STAGES[stage.name] ?? stage.name), h("small", {}, text), took ? h("small", { class: "took" }, `+${took}`) : null);
  }));
}

const requested = ({ container, resources }) => h("li", {}, `${container}: ${Object.entries(resources).map(([name, value]) => `${name} ${amount(name, value)}`).join(", ") || "nothing"}`);

export async function pod(app, [namespace, name]) {
  const answer = await get(`pods/${quoted(namespace, name)}/explain`), found = answer.pod;
  return [
    title("Pod", `${namespace}/${name}`, found ? podBadge(found) : badge("gone")),
    panel("Life cycle", life(answer.life)),
    found ? panel("Placement", fields([
      ["Node", nodeOf(found) || "none"], ["Created", found.created ? instant(found.created) : "unknown"], found.waiting_since ? ["Waiting", since(found.waiting_since)] : null, ["Priority", number(found.priority)],
      ["Owner", found.owner || "none"], ["Request", found.request.length ? h("ul", { class: "plain" }, found.request.map(requested)) : "nothing"],
      ["Queue", found.queue ? link(found.queue, "queues", found.queue) : "none"],
      found.group && !found.group.startsWith("pod/") ? ["PodGroup", found.group] : null, ["Scheduler", found.scheduler || "default"], ["UID", h("code", {}, found.uid)], ["Trace", h("code", {}, answer.trace_id)],
    ]), found.devices.length ? table("Devices", ["Container or claim", "Device", "Memory", "Cores"],
      found.devices.map((device) => [device.container || device.claim || "", h("code", {}, device.id), device.memory ? memory(device.memory) : device.claim ? "" : "whole card", device.claim ? "" : number(device.cores)])) : null) : h("p", { class: "quiet" }, "The pod no longer exists. These are its last records."),
    problems(found?.problems), explanation(answer), steps(answer.steps),
  ];
}

export async function nodes(app) {
  const wanted = (app.filters.node || app.filters.q || "").toLowerCase(), state = app.filters.state;
  const found = [...app.nodes.values()].filter((each) => each.name.toLowerCase().includes(wanted) && (!state || each.state === state.replace("_", " ")))
    .sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const shown = found.slice(0, app.most ?? LIMIT * 2);
  const strip = (each) => h("span", { class: "strip", "aria-hidden": "true" }, each.cards.map((card) => h("i", { class: card.healthy ? "" : "sick" }, h("b", { "width%": 100 * usage(card, "memory") }))));
  return [title("Nodes", `${number(found.length)} nodes`), table("Nodes", ["Node", "State", "Cards", "Model", "Memory used", "Cores used", "Pods"], shown.map((each) => {
    const [model] = totals([each]);
    return [link(each.name, "nodes", each.name), each.state === "ready" ? badge("ready", "good") : badge(each.state, "warn"), each.cards.length ? strip(each) : "none",
      model ? shortModel(model.type) : "", model?.memory ? percent(model.memoryUsed, model.memory) : "", model?.cores ? percent(model.coresUsed, model.cores) : "", number(each.pods)];
  }), "No node matches the filters."), shown.length < found.length ? h("p", { class: "quiet" }, `The first ${shown.length} are shown: filter by name.`) : null];
}

export async function node(app, [name]) {
  const found = await get(`nodes/${quoted(name)}`), cards = found.devices;
  const state = !found.node.ready ? badge("not ready", "bad") : found.node.unschedulable ? badge("unschedulable", "warn") : badge("ready", "good");
  const card = (device) => h("article", { class: `card${device.healthy ? "" : " sick"}${device.cordon ? " cordoned" : ""}` },
    h("h3", {}, `Card ${device.index}`, h("span", { class: "spacer" }), device.healthy ? null : badge("unhealthy", "bad"), device.cordon ? badge("cordoned", "warn") : null, badge(device.mode)),
    h("p", { class: "quiet" }, shortModel(device.type), " ", h("code", {}, device.id)),
    device.cordon ? h("p", { class: "cordon" }, cordonText(device.cordon)) : null,
    device.memory_total ? h("div", { class: "row" }, h("span", {}, "memory"), bar(device.memory_used, device.memory_total, "memory"), h("small", {}, `${memory(device.memory_used)} / ${memory(device.memory_total)}`)) : null,
    device.cores_total ? h("div", { class: "row" }, h("span", {}, "cores"), bar(device.cores_used, device.cores_total, "cores"), h("small", {}, `${device.cores_used} / ${device.cores_total}`)) : null,
    h("div", { class: "row" }, h("span", {}, "shares"), bar(device.slots_used, device.slots_total, "shares"), h("small", {}, `${device.slots_used} / ${device.slots_total}`)),
    device.pods.length ? h("ul", { class: "plain pods" }, device.pods.map((pod) => h("li", {}, link(pod, "pods", ...pod.split("/"))))) : null);
  const used = found.node.used, plain = Object.entries(found.node.allocatable);
  return [
    title("Node", name, state), problems(found.node.problems),
    panel(`Cards (${cards.length})`, cards.length ? h("div", { class: "cards" }, cards.map(card)) : h("p", { class: "quiet" }, "No cards are registered.")),
    found.drivers.length ? panel("Devices of ResourceClaims", table("Devices of ResourceClaims", ["Driver", "Allocated", "DeviceClasses", "Pods"], found.drivers.map((each) => [each.driver,
      h("div", { class: "row" }, bar(each.allocated, each.devices, `devices of ${each.driver}`), h("small", {}, `${number(each.allocated)} / ${number(each.devices)}`)),
      Object.entries(each.classes).map(([name, count]) => `${name}: ${number(count)}`).join(", "),
      each.pods.map((pod, at) => [at ? ", " : "", link(pod, "pods", ...pod.split("/"))])]))) : null,
    panel("Resources", h("div", { class: "queue" }, plain.map(([resource, total]) => resourceBar({ name, used, requested: {}, deserved: {}, capability: { [resource]: total } }, resource)))),
    panel(`Pods (${found.pods.length})`, table("Pods of the node", ["Pod", "State", "Queue", "Devices"], found.pods.map((pod) => [podLink(pod), podBadge(pod), pod.queue ? link(pod.queue, "queues", pod.queue) : "",
      h("small", {}, pod.devices.map((device) => `${device.id} ${device.memory ? memory(device.memory) : ""}`.trim()).join(", "))]), "No pods.")),
    panel("Events", await eventTable({ node: name })),
  ];
}

export async function queues(app) {
  const { items } = await get("queues", { queue: app.filters.queue });
  return [title("Queues", `${items.length} queues`), h("div", { class: "cards" }, items.map((each) => h("article", { class: "card" }, queueBars(each),
    h("p", { class: "quiet" }, `weight ${each.weight}${each.parent ? `, below ${each.parent}` : ""}`))))];
}

export async function queue(app, [name]) {
  const { items } = await get("queues", { queue: name }), found = items[0];
  if (!found) throw new Error(`queue ${name} not found`);
  return [
    title("Queue", name, found.open ? badge("open", "good") : badge("closed", "warn")), problems(found.problems),
    panel("Account", fields([["Weight", number(found.weight)], ["Parent", found.parent ? link(found.parent, "queues", found.parent) : "none"],
      ...Object.entries(found.pods).map(([state, count]) => [state, h("a", { href: `${path("pods")}?queue=${encodeURIComponent(name)}&state=${encodeURIComponent(state)}` }, `${number(count)} pods`)])]),
    h("p", { class: "quiet" }, "The marks are the deserved amount and the capability."), h("div", { class: "queue" }, mainResources(found, 50).map((resource) => resourceBar(found, resource)))),
    panel("Pods", await parts("pods", { queue: name, state: app.filters.state }, (rows) => table("Pods of the queue", ["Pod", "State", "Node", "Reason"],
      rows.map((pod) => [podLink(pod), podBadge(pod), nodeOf(pod), h("small", {}, pod.reason ?? "", asOf(pod.reason_at))]), "No pods."))),
  ];
}

const eventTable = (query) => parts("events", query, (rows) => table("Events", ["Time", "Service", "Step", "Pod", "Node", "Queue", "Message"],
  rows.map((each) => [h("time", { datetime: new Date(each.time * 1000).toISOString() }, moment(each.time)), each.service, badge(each.step, { bound: "good", pending: "warn", refused: "bad" }[each.step]), podLink(each),
    each.node ? link(each.node, "nodes", each.node) : "", each.queue, h("small", {}, each.message)]), "No events match the filters."));

export async function events(app) {
  const { namespace, queue, node, state } = app.filters;
  return [title("Events", "Latest steps of pods"), await eventTable({ namespace, queue, node, state })];
}
