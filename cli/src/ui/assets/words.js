// Times and states in words, as kubectl has them.

import { h } from "./dom.js";

const MEANINGS = {
  Ready: "deployed and ready",
  NotReady: "deployed, but some objects are not ready",
  Pending: "not reached by the roll-out yet",
  OutOfSync: "ready with the previous version, until it is its turn",
  Modified: "objects were changed on the cluster",
  WaitApplied: "waits for the agent of the cluster",
  WaitingForDependency: "waits until what it depends on is ready",
  ErrApplied: "the deployment failed",
  Suspended: "nothing is done until it is resumed",
  Stalled: "cannot go on without a change of the HelmOp",
  Retrying: "failed, and is tried again",
  New: "not reconciled yet",
  AgentSilent: "the agent has not reported for too long",
  NeverSeen: "the agent has never reported",
  Paused: "nothing is updated on the cluster",
  OutOfSchedule: "its Schedule allows no deployment now",
};

/** What a state means; empty if it is not known. */
export function meaning(state) {
  return MEANINGS[state] ?? "";
}

/** A duration such as `3m` or `2d4h`. */
export function duration(seconds) {
  const total = Math.max(0, Math.round(seconds));
  const units = (large, largeUnit, small, smallUnit) => {
    const rest = Math.floor((total % large) / small);
    return `${Math.floor(total / large)}${largeUnit}${rest > 0 ? `${rest}${smallUnit}` : ""}`;
  };
  if (total < 120) return `${total}s`;
  if (total < 600) return units(60, "m", 1, "s");
  if (total < 10800) return `${Math.floor(total / 60)}m`;
  if (total < 28800) return units(3600, "h", 60, "m");
  if (total < 172800) return `${Math.floor(total / 3600)}h`;
  if (total < 691200) return units(86400, "d", 3600, "h");
  return `${Math.floor(total / 86400)}d`;
}

function words(time) {
  const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
  if (time.dataset.form === "age") return duration(-seconds);
  return seconds > 0 ? `in ${duration(seconds)}` : `${duration(-seconds)} ago`;
}

/** A time such as `3m ago` or `in 4m`, which is kept up to date; nothing if it is empty. */
export function ago(time, form = "relative") {
  if (!time || Number.isNaN(Date.parse(time))) return null;
  const element = h("time", { datetime: time, title: new Date(time).toLocaleString(), "data-form": form });
  element.textContent = words(element);
  return element;
}

/** Keeps all times up to date. */
export function keepTimes() {
  setInterval(() => {
    for (const time of document.querySelectorAll("time")) {
      const text = words(time);
      if (time.textContent !== text) time.textContent = text;
    }
  }, 1000);
}

/** `1 cluster` or `5 clusters`. */
export function count(number, one) {
  return `${number} ${one}${number === 1 ? "" : "s"}`;
}

/** What is shown for nothing. */
export function none() {
  return h("span", { class: "quiet" }, "–");
}

/** A text, or what is shown for nothing. */
export function text(value) {
  return value ? String(value) : none();
}

/** A sentence with code between backticks. */
export function prose(sentence) {
  return sentence.split("`").map((part, index) => index % 2 === 1 ? h("code", {}, part) : part);
}
