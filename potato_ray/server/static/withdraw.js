// @ts-check
/** Withdraw pre-labels: the first press asks, a second one within a few seconds does it. */

import { call, problemOf } from "./api.js";
import { problemNotice, say } from "./pieces.js";

const SURE_MS = 6_000;
const CALM = "Withdraw pre-labels";

/**
 * @param {string} run
 * @param {(withdrawn: number) => void} afterwards called when they are gone
 */
export function withdrawButton(run, afterwards) {
  const button = /** @type {HTMLButtonElement | null} */ (document.getElementById("withdraw"));
  if (!button) return;
  button.addEventListener("click", () => {
    if (button.getAttribute("aria-disabled") === "true") return;
    if (button.classList.contains("sure")) void withdraw(button, run, afterwards);
    else ask(button);
  });
  button.addEventListener("keydown", (event) => event.key === "Escape" && calm(button));
  button.addEventListener("blur", () => calm(button));
}

/** @param {HTMLButtonElement} button */
function ask(button) {
  button.classList.add("sure");
  button.textContent = "Press again to withdraw";
  say(document.getElementById("said"), "Press again to withdraw the pre-labels, or Escape to keep them.");
  setTimeout(() => calm(button), SURE_MS);
}

/** @param {HTMLButtonElement} button */
function calm(button) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.classList.remove("sure");
  button.textContent = CALM;
}

/** @param {HTMLButtonElement} button @param {string} run @param {(withdrawn: number) => void} afterwards */
async function withdraw(button, run, afterwards) {
  const problems = /** @type {HTMLElement} */ (document.getElementById("withdraw-problem"));
  button.setAttribute("aria-disabled", "true");
  button.textContent = "Withdrawing…";
  problems.replaceChildren();
  try {
    const { withdrawn } = await call(`/runs/${encodeURIComponent(run)}/predictions`, { method: "DELETE" });
    afterwards(withdrawn);
  } catch (error) {
    problems.replaceChildren(problemNotice(problemOf(error)));
  } finally {
    button.removeAttribute("aria-disabled");
    calm(button);
  }
}
