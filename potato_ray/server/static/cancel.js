// @ts-check
/** Cancel run: the first press asks, a second one within a few seconds does it. */

import { call, problemOf } from "./api.js";
import { announce } from "./now.js";
import { problemNotice } from "./pieces.js";

const SURE_MS = 6_000;

/**
 * @param {HTMLElement} section where the buttons are
 * @param {HTMLElement} problems where a refusal is shown
 * @param {() => void} afterwards called when the server has answered
 */
export function cancelButtons(section, problems, afterwards) {
  section.addEventListener("click", (event) => {
    const button = buttonOf(event.target);
    if (!button || button.getAttribute("aria-disabled") === "true") return;
    if (button.classList.contains("sure")) void cancel(button, problems, afterwards);
    else ask(button);
  });
  section.addEventListener("keydown", (event) => {
    const button = buttonOf(event.target);
    if (button && event.key === "Escape") calm(button);
  });
  section.addEventListener("focusout", (event) => {
    const button = buttonOf(event.target);
    if (button && button.getAttribute("aria-disabled") !== "true") calm(button);
  });
}

/** @param {EventTarget | null} target */
function buttonOf(target) {
  return target instanceof Element ? /** @type {HTMLButtonElement | null} */ (target.closest("[data-cancel]")) : null;
}

/** @param {HTMLButtonElement} button */
function ask(button) {
  button.classList.add("sure");
  button.textContent = "Press again to cancel";
  announce("Press again to cancel the run, or Escape to let it go on.", { now: true });
  setTimeout(() => calm(button), SURE_MS);
}

/** @param {HTMLButtonElement} button */
function calm(button) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.classList.remove("sure");
  button.textContent = "Cancel run";
}

/** @param {HTMLButtonElement} button @param {HTMLElement} problems @param {() => void} afterwards */
async function cancel(button, problems, afterwards) {
  button.setAttribute("aria-disabled", "true");
  button.textContent = "Cancelling…";
  problems.replaceChildren();
  try {
    await call(`/runs/${encodeURIComponent(button.dataset.cancel ?? "")}/cancel`, { method: "POST" });
  } catch (error) {
    problems.replaceChildren(problemNotice(problemOf(error)));
  } finally {
    button.removeAttribute("aria-disabled");
    calm(button);
    afterwards();
  }
}
