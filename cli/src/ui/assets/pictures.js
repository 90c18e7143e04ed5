// Shapes, badges and bars. A state has a shape and a word, a tone has a pattern: the color is never alone.

import { h, s } from "./dom.js";
import { count, meaning } from "./words.js";

const SHAPES = new Set(["Ready", "NotReady", "Pending", "OutOfSync", "WaitApplied", "WaitingForDependency", "Modified", "ErrApplied", "Suspended"]);
const BY_TONE = { good: "Ready", pending: "NotReady", bad: "ErrApplied", off: "Suspended" };
const PATTERNS = { pending: "stripes", bad: "checks", off: "dots" };

/** The shape of a state. Others have that of their tone. */
export function shape(state, tone, title) {
  const known = SHAPES.has(state) ? state : BY_TONE[tone] ?? "Unknown";
  return s("svg", { class: `shape tone-${tone}`, "aria-hidden": true, focusable: false, viewBox: "0 0 16 16" },
    title && s("title", {}, title),
    s("use", { href: `#shape-${known}` }));
}

/** A state with its shape. */
export function badge(state, tone) {
  if (!state) return null;
  return h("span", { class: `badge tone-${tone}`, title: meaning(state) || undefined }, shape(state, tone), state);
}

/** Parts of a whole as a bar, with the numbers as its name. */
export function bar(parts, total, label) {
  const sum = Math.max(total, parts.reduce((all, part) => all + part.count, 0), 1);
  const names = parts.map((part) => `${part.count} ${part.state}`).join(", ");
  const percent = (count) => `${(count / sum) * 100}%`;
  let before = 0;
  const segments = parts.map((part) => {
    const rect = (extra) => s("rect", { x: percent(before), y: 0, width: percent(part.count), height: "100%", ...extra });
    const drawn = [rect({ class: `fill tone-${part.tone}` }), PATTERNS[part.tone] && rect({ fill: `url(#${PATTERNS[part.tone]})` })];
    const gap = before > 0 && s("line", { class: "gap", x1: percent(before), x2: percent(before), y1: 0, y2: "100%" });
    before += part.count;
    return [drawn, gap];
  });
  return s("svg", { class: "bar", role: "img", "aria-label": `${label}: ${names || "none"}` },
    s("title", {}, names || "none"),
    s("rect", { class: "track", width: "100%", height: "100%" }),
    segments);
}

/** The states with their shapes and numbers. */
export function legend(parts) {
  return h("ul", { class: "legend" }, parts.map((part) => h("li", { title: meaning(part.state) || undefined },
    shape(part.state, part.tone),
    h("strong", {}, part.count), ` ${part.state}`,
    meaning(part.state) && h("span", { class: "quiet" }, ` ${meaning(part.state)}`))));
}

/** A shape for each cluster. The table of clusters has the same as text. */
export function crowd(clusters, label) {
  return h("div", { class: "crowd", role: "img", "aria-label": `${label}: ${count(clusters.length, "cluster")}` },
    clusters.map((cluster) => shape(cluster.state, cluster.tone, `${cluster.cluster}: ${cluster.state}`)));
}

/** Ready ones of all, with a bar. */
export function progress(ready, total, parts, label) {
  return h("span", { class: "progress" }, bar(parts, total, label), h("span", { class: "number" }, `${ready}/${total}`));
}
