// The key of the link becomes a cookie and a page key. Only pages of this address and port can read the latter.

const PAGE_KEY = "helmop-page-key";

/** Exchanges the key in the address, if there is one, and removes it from there. */
export async function begin() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key === null) return;
  // Neither the history nor a screenshot needs it.
  history.replaceState(null, "", location.pathname);
  const response = await fetch("/session", { method: "POST", body: key, cache: "no-store" });
  if (!response.ok) return;
  const { pageKey } = await response.json();
  localStorage.setItem(PAGE_KEY, pageKey);
}

/** The page key; empty if there is none. */
export function pageKey() {
  return localStorage.getItem(PAGE_KEY) ?? "";
}
