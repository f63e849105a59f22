// Requests to the JSON API, and the stream of changes.

// How far the clock of the browser is behind the service's, in milliseconds, as far as an answer tells: it names the
// whole second in which it was sent.
let behind = 0;
function compare(date, sent) {
  if (!Number.isNaN(date)) behind = Math.min(Math.max(behind, date - Date.now()), date + 1000 - sent);
}
// The present by the clock of the service, in unix seconds.
export const present = () => (Date.now() + behind) / 1000;

export async function get(address, query = {}) {
  const parameters = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined));
  const text = parameters.toString();
  const sent = Date.now();
  const response = await fetch(`/api/v1/${address}${text ? "?" + text : ""}`);
  compare(Date.parse(response.headers.get("date")), sent);
  // The login has ended.
  if (response.status === 401) location.assign("/login");
  const body = await response.json();
  if (!response.ok) throw new Error(body.error || `status ${response.status}`);
  return body;
}

export const name = (...parts) => parts.map(encodeURIComponent).join("/");

// Follows the map: calls `whole` with all nodes, then `changed` with those that changed, and `status` with the counts.
export class Changes {
  constructor(handlers) {
    this.handlers = handlers;
    this.position = "";
    this.pause = 500;
  }

  async start() {
    try {
      const map = await get("cards");
      performance.mark("deviceshare-data");
      this.position = map.position;
      this.handlers.whole(map);
      this.listen();
    } catch (error) {
      this.retry(error.message);
    }
  }

  retry(reason) {
    this.source?.close();
    this.source = undefined;
    this.handlers.state(false, reason);
    this.pause = Math.min(10_000, this.pause * 2);
    setTimeout(() => this.start(), this.pause);
  }

  listen() {
    const source = new EventSource(`/api/v1/changes?since=${encodeURIComponent(this.position)}`);
    this.source = source;
    source.addEventListener("open", () => { this.pause = 500; this.handlers.state(true, ""); });
    source.addEventListener("cards", (event) => {
      this.position = event.lastEventId;
      this.handlers.changed(JSON.parse(event.data));
    });
    source.addEventListener("status", (event) => this.handlers.status(JSON.parse(event.data)));
    source.addEventListener("reset", () => this.retry("reading the map again"));
    source.addEventListener("dropped", (event) => this.retry(JSON.parse(event.data).reason));
    source.addEventListener("error", () => this.retry("no connection to the metrics service"));
  }
}
