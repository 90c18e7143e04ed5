// A list that is filtered by state and by words, for HelmOps and for clusters.

import { h, pagedTable, update } from "./dom.js";
import { shape } from "./pictures.js";
import { count } from "./words.js";

/** Namespace and name. */
export const key = (one) => `${one.namespace}/${one.name}`;

/** What to announce of an item whose state is another one. */
export const changedState = (before, after) => before?.state === after.state ? "" : `${key(after)} is now ${after.state}`;

/** The filters, with the label of each tone. */
function filters(labels) {
  const all = { id: "all", label: "All", tone: "all", of: () => true };
  return [all, ...Object.entries(labels).map(([tone, label]) => ({ id: tone, label, tone, of: (one) => one.tone === tone }))];
}

/**
 * A page with a list. `list` is the field of a view with its items, `wordsOf` are further texts of an item that are searched, and
 * `changeOf` is what to announce of an item, from the one before (or nothing) and the one after.
 */
export function listing({ title, list, noun, tones, columns, hint, empty, wordsOf, changeOf = changedState }) {
  const all = filters(tones);
  let view = null;
  let filter = all[0];
  let words = [];
  const notes = h("div");
  const tiles = h("div", { class: "tiles", role: "group", "aria-label": "Filter by state" });
  const found = h("p", { class: "quiet", role: "status" });
  const rows = pagedTable(title, columns);
  const search = h("input", {
    type: "search", id: "search", autocomplete: "off", spellcheck: "false", placeholder: hint,
    input: () => {
      words = search.value.toLowerCase().split(/\s+/);
      render();
    },
  });

  const matches = (one) => {
    const texts = [key(one), one.state, one.message, ...wordsOf(one)].join(" ").toLowerCase();
    return words.every((word) => texts.includes(word));
  };

  const tile = ({ id, label, tone, number }) => h("button", {
    type: "button", class: `tile tone-${tone}`, "aria-pressed": String(filter.id === id), "data-focus": `filter-${id}`,
    click: () => {
      filter = filter.id === id ? all[0] : all.find((one) => one.id === id);
      render();
    },
  }, h("span", { class: "big" }, number), h("span", { class: "label" }, tone !== "all" && shape("", tone), label));

  function render() {
    if (!view) return;
    const items = view[list];
    const counted = all.map(({ id, label, tone, of }) => ({ id, label, tone, number: items.filter(of).length }));
    update(tiles, [counted, filter.id], () => counted.map(tile));
    update(notes, view.notes, (texts) => texts.map((text) => h("p", { class: "note" }, text)));
    const shown = items.filter((one) => filter.of(one) && matches(one));
    const number = count(items.length, noun);
    const text = items.length === 0 ? empty : shown.length === items.length ? number : `${shown.length} of ${number}`;
    if (found.textContent !== text) found.textContent = text;
    rows.show(shown, key);
    rows.element.hidden = shown.length === 0;
  }

  return {
    title,
    content: [notes, tiles, h("div", { class: "tools" }, h("label", { for: "search" }, "Search"), search, found), rows.element],
    show(next) {
      const before = new Map(view ? view[list].map((one) => [key(one), one]) : []);
      const changes = view ? next[list].map((one) => changeOf(before.get(key(one)), one)).filter(Boolean) : [];
      view = next;
      render();
      return changes;
    },
  };
}
