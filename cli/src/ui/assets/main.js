// The frame of all pages: which one it is, the connection, and what has changed.

import { clusters } from "./clusters.js";
import { h, replace } from "./dom.js";
import { helmop } from "./helmop.js";
import { helmops } from "./helmops.js";
import { follow } from "./live.js";
import { begin } from "./session.js";
import { ago, keepTimes } from "./words.js";

const CONNECTION = {
  connecting: "Connecting",
  live: "Live",
  lost: "Connection lost",
  denied: "No access",
  busy: "Too many pages",
  server: "API server does not respond",
};

const byId = (id) => document.getElementById(id);
let lastView = null;
let announcements = [];

/** Says what has changed, some seconds apart, to those who listen. */
function announce(texts) {
  announcements.push(...texts);
}

function startAnnouncing() {
  setInterval(() => {
    if (announcements.length === 0) return;
    const some = announcements.slice(0, 3).join(". ");
    const rest = announcements.length - 3;
    announcements = [];
    replace(byId("announcer"), h("span", {}, rest > 0 ? `${some}. And ${rest} more changes.` : `${some}.`));
  }, 3000);
}

let stream = "connecting";
let server = { address: "", version: "", error: "" };

function showConnection() {
  const state = stream === "live" && server.error ? "server" : stream;
  const element = byId("connection");
  if (element.dataset.state === state) return;
  element.dataset.state = state;
  byId("connection-text").textContent = CONNECTION[state];
  document.body.dataset.connection = state;
  replace(byId("alarm"), alarm(state));
}

function alarm(state) {
  const since = lastView ? [" What is shown is from ", ago(lastView), "."] : [];
  switch (state) {
    case "lost":
      return h("p", {}, h("strong", {}, "The connection to kubectl helmop ui is lost."), " The command may have ended; start it again, and open the address that it prints.", since);
    case "server":
      return h("p", {}, h("strong", {}, "The API server does not respond."), ` ${server.error}.`, since);
    case "denied":
      return h("p", {}, h("strong", {}, "This page has no access."), " Open the address that kubectl helmop ui printed: it has the key.");
    case "busy":
      return h("p", {}, h("strong", {}, "Too many pages are open."), " Close some of them.");
    default:
      return null;
  }
}

function page() {
  const path = location.pathname.split("/").filter(Boolean);
  if (path[0] === "clusters") return { topic: "clusters", nav: "/clusters", ...clusters() };
  if (path[0] === "helmops" && path.length === 3) {
    return { topic: `helmops/${path[1]}/${path[2]}`, nav: "/helmops", ...helmop(path[1], path[2]) };
  }
  return { topic: "helmops", nav: "/helmops", ...helmops() };
}

async function start() {
  await begin().catch(() => {});
  if (location.pathname === "/") history.replaceState(null, "", "/helmops");
  const { topic, nav, title, content, show } = page();
  document.title = `${title} – kubectl helmop`;
  byId("title").textContent = title;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === nav) link.setAttribute("aria-current", location.pathname === nav ? "page" : "true");
  }
  let isShown = false;
  follow(topic, {
    view(view) {
      lastView = new Date().toISOString();
      if (!isShown && !view.isKnown) return;
      if (!isShown) replace(byId("content"), content);
      isShown = true;
      const changes = show(view);
      announce(changes);
      document.body.dataset.shown = "true";
    },
    server(view) {
      server = view;
      byId("server").textContent = view.version ? `${view.address} (Kubernetes ${view.version})` : view.address;
      showConnection();
    },
    state(state) {
      stream = state;
      showConnection();
    },
  });
  keepTimes();
  startAnnouncing();
}

start();
