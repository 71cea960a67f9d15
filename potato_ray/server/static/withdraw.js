// @ts-check
/** Withdraw pre-labels, which asks first. */

import { announce } from "./announce.js";
import { call, problemOf } from "./api.js";
import { notice, problemNotice } from "./pieces.js";
import { sureButtons } from "./sure.js";

/**
 * @param {string} run
 * @param {(said: string) => Promise<void>} showAnew draws the page again when they are gone
 */
export function withdrawButton(run, showAnew) {
  const button = document.getElementById("withdraw");
  const problems = document.getElementById("withdraw-problem");
  if (!button || !problems) return;
  sureButtons(button, "#withdraw", {
    asking: "Press again to withdraw",
    doing: "Withdrawing…",
    onAsk: () => announce("Press again to withdraw the pre-labels, or Escape to keep them.", { now: true }),
    async act() {
      problems.replaceChildren();
      try {
        const { withdrawn } = await call(`/runs/${encodeURIComponent(run)}/predictions`, { method: "DELETE" });
        await tell(`${withdrawn} pre-labels were withdrawn.`, showAnew, problems);
        return true;
      } catch (error) {
        problems.replaceChildren(problemNotice(problemOf(error)));
        return false;
      }
    },
  });
}

/** @param {string} said @param {(said: string) => Promise<void>} showAnew @param {HTMLElement} problems */
async function tell(said, showAnew, problems) {
  try {
    await showAnew(said);
  } catch {
    problems.replaceChildren(notice("warning", said, "The page could not be drawn anew: load it again."));
  }
}
