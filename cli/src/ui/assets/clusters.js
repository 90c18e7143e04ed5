// The list of clusters.

import { h } from "./dom.js";
import { listing } from "./listing.js";
import { badge, progress } from "./pictures.js";
import { ago, none, text } from "./words.js";

function deployments(one) {
  const total = one.parts.reduce((all, part) => all + part.count, 0);
  const ready = one.parts.find((part) => part.state === "Ready")?.count ?? 0;
  return total > 0 ? progress(ready, total, one.parts, "Deployments") : none();
}

function labels(one) {
  return Object.entries(one.labels).map(([name, value]) => `${name}=${value}`);
}

const COLUMNS = [
  { title: "Cluster", class: "name", cell: (one) => [h("span", { class: "quiet" }, `${one.namespace}/`), one.name] },
  { title: "State", cell: (one) => [badge(one.state, one.tone), one.window && h("span", { class: "quiet next" }, one.window)] },
  {
    title: "Agent last seen",
    cell: (one) => one.lastSeen
      ? h("span", { class: one.isSilent ? "tone-bad strong" : undefined }, ago(one.lastSeen), one.isSilent && " (silent)", one.agentVersion && h("span", { class: "quiet next" }, `version ${one.agentVersion}`))
      : h("span", { class: "quiet" }, "never"),
  },
  { title: "HelmOps ready", cell: (one) => one.helmOps.total > 0 ? `${one.helmOps.ready}/${one.helmOps.total}` : none() },
  { title: "Deployments", cell: deployments },
  { title: "Labels", class: "labels", cell: (one) => labels(one).length > 0 ? labels(one).map((label) => h("span", { class: "chip" }, label)) : none() },
  { title: "Message", class: "message", cell: (one) => text(one.message) },
];

export function clusters() {
  return listing({
    title: "Clusters",
    list: "clusters",
    noun: "cluster",
    tones: { good: "Ready", pending: "Not ready", bad: "Silent", off: "Paused" },
    columns: COLUMNS,
    hint: "Name, label, state",
    empty: "No clusters. Join one with: kubectl helmop cluster join",
    wordsOf: labels,
  });
}
