// @ts-check
/** Buttons that copy what stands in another element. */

import { say } from "./pieces.js";

const SAID_MS = 2000;

/** Make every button with `data-copies`, the id of what it copies, work. */
export function copyButtons() {
  for (const button of document.querySelectorAll("[data-copies]")) {
    /** @type {HTMLElement} */ (button).hidden = false;
    button.addEventListener("click", () => void copy(/** @type {HTMLElement} */ (button)));
  }
}

/** @param {HTMLElement} button */
async function copy(button) {
  const from = /** @type {HTMLElement} */ (document.getElementById(button.dataset.copies ?? ""));
  say(button, (await written(from.innerText)) ? "Copied" : select(from));
  setTimeout(() => say(button, "Copy"), SAID_MS);
}

/** Whether the clipboard took it; over plain http browsers have none. @param {string} text */
async function written(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Mark it, so that the keys of the system copy it. @param {HTMLElement} from */
function select(from) {
  getSelection()?.selectAllChildren(from);
  return "Marked";
}
