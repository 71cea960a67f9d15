// @ts-check
/** Check: whether a run could start on a backend. */

import { call, problemOf } from "./api.js";
import { piece, problemNotice } from "./pieces.js";

let newest = 0;

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Another backend is chosen: what is known, or asked, about the last one is of no use. */
export function forgetCheck() {
  newest += 1;
  byId("check").removeAttribute("aria-disabled");
  byId("check-report").replaceChildren();
}

/** Show the report of a backend beneath the form's menu. @param {string} name */
export async function checkBackend(name) {
  const [place, button] = [byId("check-report"), byId("check")];
  if (button.getAttribute("aria-disabled") === "true") return;
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
  place.replaceChildren(shown);
}

/** @param {any} report */
function reportOf(report) {
  const verdict = report.ok ? "A run could start." : "A run could not start.";
  /** @type {string[]} */
  const warnings = report.facts?.warnings ?? [];
  return piece(
    "div",
    { class: `notice ${report.ok ? (warnings.length ? "warning" : "good") : "error"}` },
    piece("strong", {}, `${verdict} ${report.summary}`),
    piece("ul", { class: "checks" }, ...report.checks.map(lineOf)),
    ...warnings.map((each) => piece("span", {}, each)),
  );
}

/** @param {any} check */
function lineOf(check) {
  const [look, sign, spoken] = check.is_note
    ? ["soft", "– ", ""]
    : check.ok
      ? ["check-ok", "✓ ", "Good: "]
      : ["check-bad", "✕ ", "Not good: "];
  const mark = piece("span", { class: look, "aria-hidden": "true" }, sign);
  const word = piece("span", { class: "visually-hidden" }, spoken);
  const next = !check.next_step ? [] : [` ${check.next_step}`];
  return piece("li", {}, mark, word, `${check.name}: ${check.message}`, ...next);
}
