// @ts-check
/** Cancel run, which asks first. */

import { announce } from "./announce.js";
import { call, problemOf } from "./api.js";
import { problemNotice } from "./pieces.js";
import { sureButtons } from "./sure.js";

/**
 * @param {HTMLElement} section where the buttons are
 * @param {HTMLElement} problems where a refusal is shown
 * @param {() => void} afterwards called when the server has answered
 */
export function cancelButtons(section, problems, afterwards) {
  sureButtons(section, "[data-cancel]", {
    asking: "Press again to cancel",
    doing: "Cancelling…",
    onAsk: () => announce("Press again to cancel the run, or Escape to let it go on.", { now: true }),
    async act(button) {
      problems.replaceChildren();
      const refusal = await cancel(button.dataset.cancel ?? "");
      if (refusal) problems.replaceChildren(refusal);
      afterwards();
      return !refusal;
    },
  });
}

/** @param {string} run @returns {Promise<HTMLElement | null>} why it was refused */
async function cancel(run) {
  try {
    await call(`/runs/${encodeURIComponent(run)}/cancel`, { method: "POST" });
    return null;
  } catch (error) {
    return problemNotice(problemOf(error));
  }
}
