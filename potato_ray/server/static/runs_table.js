// @ts-check
/** The Runs table: taken anew from the server whenever a run has moved on. */

import { localTimes } from "./times.js";

let taking = false;
let again = false;

/** Put the server's present table in the place of this one. */
export async function takeRuns() {
  if (taking) {
    again = true;
    return;
  }
  taking = true;
  try {
    await take();
  } finally {
    taking = false;
  }
  if (again) {
    again = false;
    await takeRuns();
  }
}

async function take() {
  const answer = await fetch(location.pathname + location.search, { cache: "no-store" }).catch(() => null);
  if (!answer?.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("runs");
  const old = document.getElementById("runs");
  if (!fresh || !old) return;
  localTimes(fresh);
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  // Somebody who is choosing among the runs is not interrupted; the rows below are new all the same.
  const rows = focused?.closest(".filters") ? [old.querySelector("table"), fresh.querySelector("table")] : [];
  if (rows[0] && rows[1]) rows[0].replaceWith(rows[1]);
  else swap(old, fresh, focused);
}

/** @param {HTMLElement} old @param {HTMLElement} fresh @param {Element | null} focused */
function swap(old, fresh, focused) {
  const href = focused?.getAttribute("href");
  old.replaceWith(fresh);
  if (href) /** @type {HTMLElement | null} */ (fresh.querySelector(`a[href="${CSS.escape(href)}"]`))?.focus();
}
