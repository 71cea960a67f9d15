// @ts-check
/** For those who listen: what changed. */

import { say } from "./pieces.js";

const SAY_EVERY_MS = 6_000;

let spokenAt = 0;
/** What must be heard, in its order. @type {string[]} */
let urgent = [];
let newest = "";
/** @type {ReturnType<typeof setTimeout> | undefined} */
let later;

/**
 * Say it at once (`now`), or when something was said last a few seconds ago; of what waits, only the newest
 * is said, and nothing ("") takes it back. What is said at once is never lost to what comes after it.
 * @param {string} text @param {{now?: boolean}} [how]
 */
export function announce(text, { now = false } = {}) {
  if (now) urgent.push(text);
  else newest = text;
  speakInTime();
}

function speakInTime() {
  clearTimeout(later);
  if (urgent.length === 0 && !newest) return;
  const wait = urgent.length > 0 ? 0 : Math.max(0, spokenAt + SAY_EVERY_MS - Date.now());
  later = setTimeout(speak, wait);
}

function speak() {
  const text = urgent.length > 0 ? urgent.join(" ") : newest;
  if (urgent.length > 0) urgent = [];
  else newest = "";
  spokenAt = Date.now();
  say(document.getElementById("said"), text);
  speakInTime();
}
