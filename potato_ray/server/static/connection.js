// @ts-check
/** How the server is reached, in words. */

import { say } from "./pieces.js";

/** @type {Record<string, string>} */
const WORDS = {
  live: "",
  polling: "",
  lost: "Connection lost, trying again. What is shown here may be old.",
  "logged-out": "You are logged out. Load this page again to log in.",
};

/** @param {string} how live, polling, lost or logged-out */
export function showConnection(how) {
  say(document.getElementById("connection"), WORDS[how]);
  document.body.classList.toggle("stale", Boolean(WORDS[how]));
}

/** Whether what is shown is what the server said last. */
export const isKnown = () => !document.body.classList.contains("stale");
