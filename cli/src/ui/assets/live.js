// The stream of views: opened again when it ends, and closed while the page is hidden.

import { pageKey } from "./session.js";

const SILENCE = 12_000;
const RETRY = [500, 1000, 2000, 4000];
const HIDDEN = 3000;

/**
 * Follows a topic. `on.view` and `on.server` get values; `on.state` gets `connecting`, `live`, `lost`, `denied` or `busy`.
 */
export function follow(topic, on) {
  let attempt = 0;
  let current = null;
  let timer = 0;

  const open = async () => {
    clearTimeout(timer);
    current?.abort();
    const mine = new AbortController();
    current = mine;
    let state = "lost";
    let watchdog = 0;
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => mine.abort(), SILENCE);
    };
    try {
      alive();
      const response = await fetch(`/stream/${topic}`, {
        headers: { "x-helmop-page-key": pageKey() },
        cache: "no-store",
        signal: mine.signal,
      });
      if (response.status === 401) state = "denied";
      if (response.status === 503) state = "busy";
      if (response.ok) {
        for await (const [event, data] of events(response.body)) {
          alive();
          attempt = 0;
          on.state("live");
          if (event === "view") on.view(JSON.parse(data));
          if (event === "server") on.server(JSON.parse(data));
        }
        state = "connecting";
      }
    } catch {
      // The connection broke, or was silent for too long.
    }
    clearTimeout(watchdog);
    if (current !== mine) return;
    current = null;
    on.state(state);
    if (document.hidden) return;
    timer = setTimeout(open, RETRY[Math.min(attempt, RETRY.length - 1)]);
    attempt += 1;
  };

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (document.hidden) {
      timer = setTimeout(() => {
        const mine = current;
        current = null;
        mine?.abort();
      }, HIDDEN);
    } else if (!current) {
      attempt = 0;
      on.state("connecting");
      open();
    }
  });
  open();
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    const blocks = buffer.split("\n\n");
    buffer = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? "";
      yield [field("event"), field("data")];
    }
  }
}
