// @ts-check
/** The Training page. */

import { followAgents, takeAgents } from "./agents.js";
import { announce } from "./announce.js";
import { cancelButtons } from "./cancel.js";
import { isKnown, showConnection } from "./connection.js";
import { startForm } from "./form.js";
import { drawEnded, drawNow, endSentence, stepSentence, tickEverySecond } from "./now.js";
import { takeRuns } from "./runs_table.js";
import { follow } from "./stream.js";
import { localTimes } from "./times.js";

/** @type {string | undefined} */
let runsDrawn;
/** @type {string | undefined} */
let agentsDrawn;
let spoken = "";
/** When the run that ended last had ended, as the page was made: one that ended since is news at once. */
let lastEnd = Number(document.getElementById("ended")?.dataset.lastEnd ?? 0);

/** @param {any} status */
function onStatus(status) {
  drawNow(status);
  // The record of the last one may be pruned: there is none then, or an earlier one.
  const end = status.last?.finished_at ?? 0;
  const news = end > lastEnd;
  lastEnd = Math.max(end, lastEnd);
  if (news) {
    drawEnded(status.last);
    announce(endSentence(status.last), { now: true });
  }
  refreshRuns(status);
  refreshAgents(status);
  const sentence = stepSentence(status);
  if (sentence !== spoken) announce(sentence);
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

/** The agents are taken anew, besides now and then, when a run gets to one, or one comes to a run. @param {any} status */
function refreshAgents(status) {
  const key = JSON.stringify([
    status.runs.map((/** @type {any} */ run) => run.run_id),
    status.queue.map((/** @type {any} */ run) => run.n_agents),
  ]);
  if (key !== agentsDrawn) void takeAgents();
  agentsDrawn = key;
}

localTimes();
const follower = follow({ onStatus, onConnection: showConnection });
tickEverySecond(isKnown);
followAgents();
startForm({ onStarted: () => void follower.refresh() });
cancelButtons(
  /** @type {HTMLElement} */ (document.getElementById("now")),
  /** @type {HTMLElement} */ (document.getElementById("cancel-problem")),
  () => void follower.refresh(),
);
