// The cards of all nodes, and what is computed from them: totals per model.

const STATES = { ready: "ready", not_ready: "not ready", unschedulable: "unschedulable" };

export function node([name, state, pods, problems, kinds, cards]) {
  return {
    name, state: STATES[state] ?? state, pods, problems,
    cards: cards.map(([kind, memoryUsed, coresUsed, slotsUsed, healthy, slices, free, cordoned], index) => {
      const [type, mode, memory, cores, slots] = kinds[kind];
      return { index, type, mode, memory, cores, slots, memoryUsed, coresUsed, slotsUsed, healthy, slices, free: free ?? 0, cordoned: cordoned ?? false };
    }),
  };
}

// Cards that count as a number only are a model of their own: their amounts do not add up with memory.
export const modelOf = (card) => `${card.type} · ${card.mode}${card.memory ? "" : " · by cores"}`;
export const share = (used, total) => (total ? Math.min(1, used / total) : 0);

// The share of a card in use; cards without memory (whole cards, MindCluster) are measured by their cores.
export function usage(card, metric) {
  if (metric === "slots") return share(card.slotsUsed, card.slots);
  if (metric === "cores" || !card.memory) return share(card.coresUsed, card.cores);
  return share(card.memoryUsed, card.memory);
}

export const sameCard = (a, b) => a.memoryUsed === b.memoryUsed && a.coresUsed === b.coresUsed && a.free === b.free && a.healthy === b.healthy && a.cordoned === b.cordoned
  && a.slotsUsed === b.slotsUsed && a.type === b.type && a.mode === b.mode && a.slices.length === b.slices.length
  && a.slices.every((slice, at) => slice === b.slices[at]);

// Cards of one pod, of which is shown on how many nodes they are wholly free.
export const NUMBERS = [8, 4, 2, 1];

// Unhealthy and cordoned cards, and those of nodes that take no pods, count in the totals and are not free.
export function totals(nodes) {
  const models = new Map();
  for (const each of nodes) {
    const free = new Map();
    for (const card of each.cards) {
      const key = modelOf(card);
      let model = models.get(key);
      if (!model) {
        model = { key, type: card.type, mode: card.mode, cards: 0, unhealthy: 0, cordoned: 0, whole: 0, memory: 0, memoryUsed: 0,
          cores: 0, coresUsed: 0, free: 0, fragmented: 0, largest: 0, unit: card.memory ? "memory" : "cores", onNodes: [0, 0, 0, 0], most: 0 };
        models.set(key, model);
      }
      model.cards += 1;
      model.memory += card.memory;
      model.memoryUsed += card.memoryUsed;
      model.cores += card.cores;
      if (card.cores) model.coresUsed += card.coresUsed;
      if (!card.healthy) model.unhealthy += 1;
      else if (card.cordoned) model.cordoned += 1;
      if (!card.healthy || card.cordoned || each.state !== "ready") continue;
      model.free += card.free;
      model.largest = Math.max(model.largest, card.free);
      if (card.slotsUsed === 0) {
        model.whole += 1;
        free.set(model, (free.get(model) ?? 0) + 1);
      }
      else model.fragmented += card.free;
    }
    for (const [model, cards] of free) {
      model.most = Math.max(model.most, cards);
      NUMBERS.forEach((number, at) => { model.onNodes[at] += cards >= number; });
    }
  }
  return [...models.values()].sort((a, b) => b.cards - a.cards || a.key.localeCompare(b.key));
}

export const freeShare = (each) => {
  const total = each.cards.reduce((cards, card) => cards + usage(card, "memory"), 0);
  return each.cards.length ? 1 - total / each.cards.length : -1;
};
