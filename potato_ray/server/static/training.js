// @ts-check
/** The Training page. */

import { cancelButtons } from "./cancel.js";
import { startForm } from "./form.js";
import { announce, drawEnded, drawNow, endSentence, stepSentence, tickEverySecond } from "./now.js";
import { say } from "./pieces.js";
import { takeRuns } from "./runs_table.js";
import { follow } from "./stream.js";
import { localTimes } from "./times.js";

/** @type {Record<string, string>} */
const CONNECTION = {
  live: "",
  polling: "",
  lost: "Connection lost, trying again. What is shown here may be old.",
  "logged-out": "You are logged out. Load this page again to log in.",
};

/** @type {string | undefined} */
let runsDrawn;
let spoken = "";
/** @type {string | null | undefined} */
let lastEnded;

/** @param {any} status */
function onStatus(status) {
  drawNow(status);
  const ended = status.last?.run_id ?? null;
  if (lastEnded !== undefined && ended !== lastEnded) {
    drawEnded(status.last);
    announce(endSentence(status.last), { now: true });
  }
  lastEnded = ended;
  refreshRuns(status);
  const sentence = stepSentence(status);
  if (sentence && sentence !== spoken) announce(sentence);
  spoken = sentence;
}

/** The table is as old as the page; it is taken anew when any run has another status. @param {any} status */
function refreshRuns(status) {
  const key = JSON.stringify([
    status.runs.map((/** @type {any} */ run) => [run.run_id, run.status]),
    status.queue.map((/** @type {any} */ run) => [run.run_id, run.position]),
    status.last?.run_id,
  ]);
  if (key !== runsDrawn) void takeRuns();
  runsDrawn = key;
}

localTimes();
const follower = follow({
  onStatus,
  onConnection(how) {
    say(document.getElementById("connection"), CONNECTION[how]);
    document.body.classList.toggle("stale", Boolean(CONNECTION[how]));
  },
});
tickEverySecond(() => !document.body.classList.contains("stale"));
startForm({ onStarted: () => void follower.refresh() });
cancelButtons(
  /** @type {HTMLElement} */ (document.getElementById("now")),
  /** @type {HTMLElement} */ (document.getElementById("cancel-problem")),
  () => void follower.refresh(),
);
