// @ts-check
/** Check: whether a run could start on a backend. */

import { call, problemOf } from "./api.js";
import { piece, problemNotice } from "./pieces.js";

let newest = 0;

/** Show the report of a backend beneath the form's menu. @param {string} name */
export async function checkBackend(name) {
  const place = /** @type {HTMLElement} */ (document.getElementById("check-report"));
  const button = /** @type {HTMLElement} */ (document.getElementById("check"));
  const mine = ++newest;
  button.setAttribute("aria-disabled", "true");
  place.replaceChildren(piece("p", { class: "soft" }, `Checking ${name}…`));
  let shown;
  try {
    shown = reportOf(await call(`/backends/${encodeURIComponent(name)}/check`, { method: "POST" }));
  } catch (error) {
    shown = problemNotice(problemOf(error));
  }
  if (mine !== newest) return;
  button.removeAttribute("aria-disabled");
  // Somebody may have chosen another backend meanwhile.
  const chosen = /** @type {HTMLSelectElement} */ (document.getElementById("backend")).value;
  place.replaceChildren(...(chosen === name ? [shown] : []));
}

/** @param {any} report */
function reportOf(report) {
  const verdict = report.ok ? "A run could start." : "A run could not start.";
  return piece(
    "div",
    { class: `notice ${report.ok ? "good" : "error"}` },
    piece("strong", {}, `${verdict} ${report.summary}`),
    piece("ul", { class: "checks" }, ...report.checks.map(lineOf)),
  );
}

/** @param {any} check */
function lineOf(check) {
  const mark = piece("span", { class: check.ok ? "check-ok" : "check-bad", "aria-hidden": "true" }, check.ok ? "✓ " : "✕ ");
  const word = piece("span", { class: "visually-hidden" }, check.ok ? "Good: " : "Not good: ");
  const next = check.ok || !check.next_step ? [] : [` ${check.next_step}`];
  return piece("li", {}, mark, word, `${check.name}: ${check.message}`, ...next);
}
