// The page of one HelmOp.

import { h, pagedTable, table, update } from "./dom.js";
import { badge, bar, crowd, legend, shape } from "./pictures.js";
import { ago, count, none, prose, text } from "./words.js";

/** More clusters than this are shown only if they are not ready, at first. */
const MANY = 25;
const MAX_SHAPES = 1000;

function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value).map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))));
}

/** A section with a heading. */
function section(id, title, ...children) {
  return h("section", { "aria-labelledby": id, class: "panel" }, h("h2", { id }, title), children);
}

function polls({ interval, last, next, state }) {
  if (!interval) return "off";
  const upcoming = next ? ["next ", ago(next)] : [state === "Due" ? "next one is due" : state === "Retrying" ? "retrying" : ""];
  return [`every ${interval}`, last && [", last ", ago(last)], ", ", upcoming];
}

function heading({ report, tone }) {
  const chart = `${report.chart || "chart"} ${report.version || ""}`.trim();
  return [
    h("p", { class: "lead" }, badge(report.state, tone), report.reason && report.reason !== report.state && h("span", { class: "reason" }, report.reason), h("span", { class: "version" }, chart)),
    report.message && h("p", { class: `callout tone-${tone}` }, report.message),
    report.pendingGeneration && h("p", { class: "note" }, `The status is of an earlier spec: the controller has not reconciled generation ${report.pendingGeneration} yet.`),
    report.next && h("p", { class: "advice" }, h("span", { class: "quiet" }, "Next: "), h("code", {}, report.next.command), h("span", { class: "quiet" }, ` ${report.next.purpose}`)),
    facts([
      ["Clusters ready", `${report.readyClusters} of ${report.desiredReadyClusters}`],
      ["Requested", report.range || "the latest version"],
      ["Repository", report.repo],
      ["Polls", polls(report.polling)],
      ["Age", ago(report.created, "age")],
    ]),
  ];
}

/** The clusters that run each version, a shape for each of them. */
function versions({ rollout, clusters, report }) {
  const title = (part) => part.version || "No version known";
  const role = (part) => part.isDesired ? "rolled out" : part.version ? "before" : "";
  return h("ol", { class: "versions" }, rollout.byVersion.map((part) => {
    const of = clusters.filter((cluster) => cluster.running === part.version);
    const shown = of.slice(0, MAX_SHAPES);
    return h("li", { class: part.isDesired ? "desired" : undefined },
      h("p", { class: "version-name" }, h("strong", {}, title(part)), role(part) && h("span", { class: "chip" }, role(part)), h("span", { class: "quiet" }, ` ${count(part.count, "cluster")}${part.isDesired ? `, ${part.ready} ready` : ""}`)),
      crowd(shown, `${title(part)} on ${report.name}`),
      of.length > shown.length && h("p", { class: "quiet" }, `and ${of.length - shown.length} more`));
  }));
}

const PHASES = {
  done: ["good", "Ready", () => "up to date"],
  active: ["pending", "NotReady", () => "is updated now"],
  waiting: ["off", "Pending", (one) => `waits for ${one.waitsFor}`],
};

function partitions(all) {
  return h("ol", { class: "partitions" }, all.map((one) => {
    const [tone, state, words] = PHASES[one.phase];
    return h("li", { class: `phase-${one.phase}` },
      h("p", { class: "partition-name" }, shape(state, tone), h("strong", {}, one.name), h("span", { class: "quiet" }, ` ${count(one.count, "cluster")}`), h("span", { class: `phase tone-${tone}` }, words(one))),
      bar(one.parts, one.count, `Partition ${one.name}`),
      h("p", { class: "quiet small" }, `${one.unavailable} unavailable, at most ${one.maxUnavailable} may be`));
  }));
}

function limits({ paused, waits, maxUnavailable, unavailable, maxNew, newlyCreated }) {
  const texts = [
    paused && "The roll-out is paused: spec.paused of the HelmOp.",
    waits && `The roll-out stands still: ${waits}.`,
    maxUnavailable !== null && unavailable !== null && `${unavailable} of all clusters are unavailable, at most ${maxUnavailable} may be (maxUnavailable).`,
    newlyCreated > 0 && maxNew !== null && `${newlyCreated} clusters are new in this round, at most ${maxNew} may be (maxNew).`,
  ];
  return texts.filter(Boolean).map((one) => h("p", { class: "quiet small limit" }, one));
}

function rollout(details) {
  const { byState, partitions: all } = details.rollout;
  const total = details.report.desiredReadyClusters;
  if (total === 0 && byState.length === 0) return h("p", { class: "quiet" }, "No clusters are targeted.");
  return [
    h("div", { class: "whole" }, bar(byState, total, "Clusters by state"), legend(byState)),
    details.clusters.length > 0 && [h("h3", {}, "By version"), versions(details)],
    all.length > 1 && [h("h3", {}, "Partitions, in their order"), partitions(all)],
    limits(details.rollout),
  ];
}

function names({ clusters, count: number }) {
  const rest = number - clusters.length;
  const some = clusters.slice(0, 5).join(", ");
  if (number <= 5) return some;
  return h("details", {}, h("summary", {}, `${count(number, "cluster")}: ${clusters[0]}, …`), h("p", {}, clusters.join(", "), rest > 0 && ` and ${rest} more`));
}

function relations(title, related, namespace) {
  const label = (one) => (one.namespace === namespace ? one.name : `${one.namespace}/${one.name}`);
  return h("div", { class: "relations" }, h("h3", {}, title), related.length === 0
    ? h("p", { class: "quiet" }, "Nothing")
    : h("ul", {}, related.map((one) => h("li", {},
      one.exists ? h("a", { href: `/helmops/${one.namespace}/${one.name}` }, label(one)) : h("span", {}, label(one)), " ",
      one.state && badge(one.state, one.tone)))));
}

function dependencies({ report, tone, dependsOn, neededBy }) {
  const arrow = h("span", { class: "arrow", "aria-hidden": true }, "→");
  return h("div", { class: "chain" }, relations("It waits for", dependsOn, report.namespace), arrow,
    h("div", { class: "relations self" }, h("h3", {}, "This HelmOp"), h("p", {}, report.name, " ", badge(report.state, tone))),
    arrow.cloneNode(true), relations("These wait for it", neededBy, report.namespace));
}

/** What is missing, and why. */
function noteList(notes) {
  return notes.map((one) => h("p", { class: "note" }, one));
}

const WAITS = [
  { title: "Waits for", class: "name", cell: (one) => [h("span", { class: `tone-${one.tone}` }, shape("", one.tone)), " ", one.cause] },
  { title: "Clusters", cell: names },
  { title: "Reported", class: "message", cell: (one) => text(one.detail) },
];

const CONDITIONS = [
  { title: "Condition", cell: (one) => one.type },
  { title: "Status", cell: (one) => badge(one.status, one.tone) },
  { title: "Reason", cell: (one) => text(one.reason) },
  { title: "Since", cell: (one) => ago(one.since) ?? none() },
  { title: "Message", class: "message", cell: (one) => [text(one.message), one.remedy && h("p", { class: "remedy" }, h("strong", {}, "What to do: "), prose(one.remedy))] },
];

const CLUSTERS = [
  { title: "Cluster", cell: (one) => one.cluster },
  { title: "State", cell: (one) => badge(one.state, one.tone) },
  { title: "Runs", class: "together", cell: (one) => text(one.runs || one.running) },
  { title: "Version", class: "together", cell: (one) => [text(one.version), one.stagedVersion && h("span", { class: "quiet" }, ` then ${one.stagedVersion}`)] },
  { title: "Failures", cell: (one) => one.failures ? [`${one.failures}`, one.nextAttempt && h("span", { class: "quiet next" }, "next attempt ", ago(one.nextAttempt))] : none() },
  { title: "Agent last seen", cell: (one) => one.lastSeen ? h("span", { class: one.isSilent ? "tone-bad strong" : undefined }, ago(one.lastSeen), one.isSilent && " (silent)") : none() },
  { title: "Message", class: "message", cell: (one) => text(one.message) },
];

const ATTEMPTS = [
  { title: "When", cell: (one) => ago(one.time) ?? none() },
  { title: "Cluster", cell: (one) => one.cluster },
  { title: "Outcome", cell: (one) => badge(one.outcome, one.tone) },
  { title: "Action", cell: (one) => text(one.action) },
  { title: "Version", class: "together", cell: (one) => text(`${one.chart} ${one.version}`.trim()) },
  { title: "Revision", cell: (one) => text(one.revision) },
  { title: "From", cell: (one) => text(one.from) },
  { title: "Message", class: "message", cell: (one) => text(one.message) },
];

const EVENTS = [
  { title: "When", cell: (one) => [ago(one.last) ?? none(), one.count > 1 && h("span", { class: "quiet" }, ` (${one.count} times)`)] },
  { title: "Type", cell: (one) => badge(one.type, one.type === "Warning" ? "pending" : "off") },
  { title: "Reason", cell: (one) => one.reason },
  { title: "Object", cell: (one) => one.object },
  { title: "Message", class: "message", cell: (one) => text(one.message) },
];

export function helmop(namespace, name) {
  const top = h("div", { class: "top" });
  const notes = h("div");
  const picture = h("div");
  const chain = h("div");
  const resolved = h("div", { class: "resolved" });
  const older = h("p", { class: "quiet" });
  const historyNotes = h("div");
  const waits = table("Table of what clusters wait for", WAITS);
  const conditions = table("Table of conditions", CONDITIONS);
  const clusters = pagedTable("Table of clusters", CLUSTERS);
  const attempts = pagedTable("Table of attempts", ATTEMPTS);
  const events = pagedTable("Table of Events", EVENTS);
  const nothing = Object.fromEntries(["waits", "clusters", "attempts", "events"].map((id) => [id, h("p", { class: "quiet" })]));
  const onlyNotReady = h("input", { type: "checkbox", id: "only-not-ready", change: () => { wasChosen = true; showClusters(); } });
  const clusterCount = h("span", { class: "quiet", role: "status" });
  const parts = [
    section("rollout", "Roll-out", picture),
    section("waiting", "What is waiting", nothing.waits, waits.element),
    section("dependencies", "Dependencies", chain),
    section("conditions", "Conditions", conditions.element),
    section("clusters", "Clusters", h("p", { class: "tools" }, h("span", {}, onlyNotReady, h("label", { for: "only-not-ready" }, "Only those that are not ready")), clusterCount), nothing.clusters, clusters.element),
    section("history", "History of attempts", resolved, nothing.attempts, attempts.element, older, historyNotes),
    section("events", "Events", nothing.events, events.element),
  ];
  const dependencySection = parts[2];
  const body = h("div", {}, parts);
  let wasChosen = false;
  let view = null;

  function rows(which, shown, items, keyOf, empty) {
    shown.show(items, keyOf);
    shown.element.hidden = items.length === 0;
    which.hidden = items.length > 0;
    if (which.textContent !== empty) which.textContent = empty;
  }

  function showClusters() {
    const all = view.helmop.clusters;
    if (!wasChosen) onlyNotReady.checked = all.length > MANY && all.some((one) => one.tone !== "good");
    const shown = onlyNotReady.checked ? all.filter((one) => one.tone !== "good") : all;
    rows(nothing.clusters, clusters, shown, (one) => one.cluster, all.length === 0 ? "No clusters are known." : "All clusters are ready.");
    clusterCount.textContent = shown.length === all.length ? count(all.length, "cluster") : `${shown.length} of ${count(all.length, "cluster")}`;
  }

  function render() {
    update(notes, view.notes, noteList);
    const details = view.helmop;
    body.hidden = !details;
    update(top, details ? [details.report, details.tone] : null, () => details ? heading(details) : h("p", {}, `There is no HelmOp ${name} in namespace ${namespace}, or it cannot be read.`));
    if (!details) return;
    const { report } = details;
    rows(nothing.waits, waits, details.waits, (one) => one.cause, report.readyClusters === report.desiredReadyClusters ? "Nothing: all clusters are up to date and ready." : "The release on each cluster is not known here, and so not what it waits for.");
    update(picture, [details.rollout, details.clusters.map((one) => [one.cluster, one.state, one.running])], () => rollout(details));
    dependencySection.hidden = details.dependsOn.length + details.neededBy.length === 0;
    update(chain, [details.dependsOn, details.neededBy, report.state], () => dependencies(details));
    conditions.show(report.conditions.map((one, index) => ({ ...one, tone: details.conditionTones[index] })), (one) => one.type);
    showClusters();
    update(resolved, details.resolved, (all) => all.map((one) => h("p", {}, "Resolved: ", h("strong", { class: "version" }, one.version), one.range && ` for ${one.range}`, h("span", { class: "quiet" }, ` ${one.chart}`, one.digest && h("span", { class: "digest" }, ` digest ${one.digest}`)))));
    rows(nothing.attempts, attempts, details.attempts, (one) => `${one.cluster} ${one.revision} ${one.time}`, "No attempts are recorded.");
    older.textContent = details.olderAttempts > 0 ? `${details.olderAttempts} older attempts: kubectl helmop history ${name} -n ${namespace}` : "";
    update(historyNotes, details.historyNotes, noteList);
    rows(nothing.events, events, [...report.events].reverse(), (one) => `${one.object} ${one.type} ${one.reason} ${one.message}`, "No Events: they are kept for an hour.");
  }

  return {
    title: `${namespace}/${name}`,
    content: [h("p", { class: "back" }, h("a", { href: "/helmops" }, "All HelmOps")), notes, top, body],
    show(next) {
      const changes = [];
      const [before, after] = [view?.helmop, next.helmop];
      if (before && after) {
        if (before.report.state !== after.report.state) changes.push(`The state is now ${after.report.state}`);
        if (before.report.readyClusters !== after.report.readyClusters) changes.push(`${after.report.readyClusters} of ${count(after.report.desiredReadyClusters, "cluster")} are ready`);
        if (before.report.version !== after.report.version) changes.push(`Version ${after.report.version}`);
      }
      view = next;
      render();
      return changes;
    },
  };
}
