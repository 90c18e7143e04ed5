// The list of HelmOps.

import { h } from "./dom.js";
import { changedState, key, listing } from "./listing.js";
import { badge, progress } from "./pictures.js";
import { ago, none, text } from "./words.js";

const COLUMNS = [
  {
    title: "HelmOp",
    class: "name",
    cell: (one) => h("a", { href: `/helmops/${one.namespace}/${one.name}`, "data-focus": key(one) }, h("span", { class: "quiet" }, `${one.namespace}/`), one.name),
  },
  {
    title: "State",
    cell: (one) => [badge(one.state, one.tone), one.reason && one.reason !== one.state && h("span", { class: "reason" }, one.reason)],
  },
  {
    title: "Clusters",
    cell: (one) => one.desiredReadyClusters > 0 ? progress(one.readyClusters, one.desiredReadyClusters, one.parts, "Clusters") : none(),
  },
  {
    title: "Version",
    cell: (one) => [
      h("span", { class: one.version ? "version" : "quiet" }, one.version || "none yet"),
      one.range && one.range !== one.version && h("span", { class: "quiet" }, ` of ${one.range}`),
    ],
  },
  { title: "Chart", cell: (one) => h("span", { title: one.repo || undefined }, text(one.chart)) },
  {
    title: "Polled",
    cell: (one) => one.polling.last
      ? [ago(one.polling.last), one.polling.next && h("span", { class: "quiet next" }, "next ", ago(one.polling.next))]
      : none(),
  },
  { title: "Message", class: "message", cell: (one) => text(one.message) },
];

function changeOf(before, after) {
  if (!before) return `${key(after)} is new`;
  if (before.state !== after.state) return changedState(before, after);
  return before.version !== after.version ? `${key(after)} has version ${after.version}` : "";
}

export function helmops() {
  return listing({
    title: "HelmOps",
    list: "helmops",
    noun: "HelmOp",
    tones: { good: "Ready", pending: "In progress", bad: "Failing", off: "Suspended" },
    columns: COLUMNS,
    hint: "Name, chart, version, reason",
    empty: "No HelmOps. Create one with: kubectl helmop create",
    wordsOf: (one) => [one.chart, one.version, one.range, one.reason],
    changeOf,
  });
}
