// Elements, and lists of them that keep what has not changed. Texts become text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false && child !== ""));
  return element;
}

/** An HTML element. Attributes that are functions are listeners of events. */
export function h(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function s(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** Replaces the children of an element; the focus stays on the control with the same `data-focus`. */
export function replace(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  parent.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (focused) parent.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

/** Replaces the children of an element if `data` is not the same as in the last call. */
export function update(parent, data, render) {
  const json = JSON.stringify(data);
  if (parent.rendered === json) return;
  parent.rendered = json;
  replace(parent, render(data));
}

/** Makes the children those of `items`, in their order. A child whose item has not changed stays as it is. */
export function list(parent, items, keyOf, render) {
  const known = new Map([...parent.children].map((child) => [child.itemKey, child]));
  const seen = new Map();
  let next = parent.firstElementChild;
  for (const item of items) {
    // Texts of the cluster may be equal, but the keys of children are not.
    const number = seen.get(keyOf(item)) ?? 0;
    seen.set(keyOf(item), number + 1);
    const key = `${keyOf(item)}\n${number}`;
    const json = JSON.stringify(item);
    let child = known.get(key);
    known.delete(key);
    const focused = child?.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
    if (!child || child.rendered !== json) {
      const fresh = render(item);
      fresh.itemKey = key;
      fresh.rendered = json;
      if (child) {
        if (next === child) next = fresh;
        child.replaceWith(fresh);
        fresh.classList.add("changed");
      }
      child = fresh;
    }
    if (child === next) next = child.nextElementSibling;
    else parent.insertBefore(child, next);
    // A child that is replaced or moved loses the focus.
    if (focused && !child.contains(document.activeElement)) {
      child.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    }
  }
  for (const gone of known.values()) gone.remove();
}

/** So many rows of a long table are shown, and so many more with each click. */
const PAGE = 100;

/** A table that shows the first rows, and more on request. */
export function pagedTable(caption, columns) {
  const rows = table(caption, columns);
  let [items, keyOf, limit] = [[], null, PAGE];
  const more = h("button", { type: "button", class: "more", click: () => { limit += PAGE; render(); } });
  const render = () => {
    const rest = items.length - limit;
    more.hidden = rest <= 0;
    more.textContent = `Show ${Math.min(rest, PAGE)} more of ${items.length}`;
    rows.show(items.slice(0, limit), keyOf);
  };
  const show = (next, nextKeyOf) => {
    [items, keyOf] = [next, nextKeyOf];
    render();
  };
  return { element: h("div", {}, rows.element, more), show };
}

/**
 * A table whose rows can be replaced. On narrow screens CSS shows each row as a card; the roles keep it a table for screen readers.
 * `columns` have a `title` and a function `cell` from an item to children.
 */
export function table(caption, columns) {
  const body = h("tbody", { role: "rowgroup" });
  const heading = (column) => h("th", { scope: "col", role: "columnheader" }, column.title);
  const element = h("table", { role: "table" },
    h("caption", { class: "unseen" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map(heading))),
    body);
  const cell = (column, item, index) => index === 0
    ? h("th", { scope: "row", role: "rowheader", "data-label": column.title, class: column.class }, column.cell(item))
    : h("td", { role: "cell", "data-label": column.title, class: column.class }, column.cell(item));
  const row = (item) => h("tr", { role: "row" }, columns.map((column, index) => cell(column, item, index)));
  // A region that scrolls sideways can be reached by the keyboard, and has a name.
  const scroller = h("div", { class: "table", role: "region", "aria-label": caption, tabindex: 0 }, element);
  return { element: scroller, show: (items, keyOf) => list(body, items, keyOf, row) };
}
