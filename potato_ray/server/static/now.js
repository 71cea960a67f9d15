// @ts-check
/** The section `Now`: what runs and what waits, drawn from one status and nothing else. */

import { startCommand } from "./agents.js";
import { notice, piece, say } from "./pieces.js";
import { duration, number, progressWords } from "./wording.js";

const RUNS = "/admin/training/runs/";

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** @param {Element} card @param {string} name */
const part = (card, name) => /** @type {HTMLElement} */ (card.querySelector(`[data-part="${name}"]`));

/** Draw a status. @param {any} status */
export function drawNow(status) {
  fill(byId("active"), "card-template", status.runs, fillCard);
  fill(byId("waiting-list"), "waiting-template", status.queue, (row, run) =>
    fillWaiting(row, run, status.server_time - run.created_at),
  );
  byId("active").hidden = status.runs.length === 0;
  byId("waiting").hidden = status.queue.length === 0;
  byId("idle").hidden = status.runs.length + status.queue.length > 0;
  drawTrouble(status);
}

/**
 * One child for each run, in their order. A child that is there already stays, with its focus.
 * @param {HTMLElement} list @param {string} template @param {any[]} runs
 * @param {(child: HTMLElement, run: any) => void} fillChild
 */
function fill(list, template, runs, fillChild) {
  const wanted = new Set(runs.map((run) => run.run_id));
  for (const child of [...list.children]) {
    if (!wanted.has(/** @type {HTMLElement} */ (child).dataset.run)) remove(/** @type {HTMLElement} */ (child));
  }
  runs.forEach((run, at) => {
    const found = [...list.children].find((each) => /** @type {HTMLElement} */ (each).dataset.run === run.run_id);
    const child = /** @type {HTMLElement} */ (found ?? fresh(template, run));
    fillChild(child, run);
    if (list.children[at] !== child) list.insertBefore(child, list.children[at] ?? null);
  });
}

/** The focus of what goes moves to the section's heading, and not to the top of the page.
 *  @param {HTMLElement} child */
function remove(child) {
  const focused = child.contains(document.activeElement);
  child.remove();
  if (focused) focusHeading();
}

function focusHeading() {
  const heading = byId("now-heading");
  heading.tabIndex = -1;
  heading.focus();
}

/** @param {string} template @param {any} run */
function fresh(template, run) {
  const { content } = /** @type {HTMLTemplateElement} */ (document.getElementById(template));
  const child = /** @type {HTMLElement} */ (content.firstElementChild?.cloneNode(true));
  child.dataset.run = run.run_id;
  const link = part(child, "link");
  link.setAttribute("href", RUNS + encodeURIComponent(run.run_id));
  link.textContent = nameOf(run);
  /** @type {HTMLElement} */ (child.querySelector("[data-cancel]")).dataset.cancel = run.run_id;
  return child;
}

/** @param {any} run */
const nameOf = (run) => `${run.trainer} on ${run.schemas.slice(0, 1)}`;

/** @param {HTMLElement} card @param {any} run */
function fillCard(card, run) {
  const status = part(card, "status");
  say(status, run.status);
  status.className = `status status-${run.status}`;
  say(part(card, "step"), stepOf(run));
  fillMeter(card, run);
  fillMetrics(part(card, "metrics"), run.metrics);
  fillWarnings(part(card, "warnings"), run.warnings);
  say(part(card, "place"), [run.backend, run.device].filter(Boolean).join(" · "));
  card.dataset.begun = String(performance.now() / 1000 - run.elapsed_s);
  tick(card);
  const cancel = /** @type {HTMLElement} */ (card.querySelector("[data-cancel]"));
  if (!run.can_cancel && cancel === document.activeElement) focusHeading();
  cancel.hidden = !run.can_cancel;
}

/** How long a run has taken so far: it goes on between two statuses. @param {HTMLElement} card */
function tick(card) {
  say(part(card, "elapsed"), whole(performance.now() / 1000 - Number(card.dataset.begun)));
}

/** A length of time that goes on: in whole seconds from the beginning. @param {number} seconds */
const whole = (seconds) => (seconds < 60 ? `${Math.max(0, Math.floor(seconds))} s` : duration(seconds));

/** Let the times of the runs under way go on, while `known` says that they still are. @param {() => boolean} known */
export function tickEverySecond(known) {
  setInterval(() => {
    if (!known()) return;
    for (const card of byId("active").children) {
      if (/** @type {HTMLElement} */ (card).dataset.begun) tick(/** @type {HTMLElement} */ (card));
    }
    for (const row of byId("waiting-list").children) sayWait(/** @type {HTMLElement} */ (row));
  }, 1_000);
}

/** @param {any} run */
const stepOf = (run) => run.step || run.phase || run.status;

/** @param {HTMLElement} card @param {any} run */
function fillMeter(card, run) {
  const known = run.total > 0;
  part(card, "meter").hidden = !known;
  if (!known) return;
  const progress = /** @type {HTMLProgressElement} */ (part(card, "progress"));
  progress.max = run.total;
  progress.value = run.current;
  say(part(card, "figures"), progressWords(run));
}

/** @param {HTMLElement} list @param {Record<string, unknown>} metrics */
function fillMetrics(list, metrics) {
  const shown = Object.entries(metrics)
    .filter(([, value]) => value !== null)
    .sort(([a], [b]) => Number(a.startsWith("n_")) - Number(b.startsWith("n_")) || (a < b ? -1 : 1))
    .slice(0, Number(byId("active").dataset.mostMetrics));
  list.hidden = shown.length === 0;
  list.replaceChildren(
    ...shown.map(([name, value]) => piece("div", {}, piece("dt", {}, name), piece("dd", {}, number(value)))),
  );
}

/** @param {HTMLElement} list @param {string[]} warnings */
function fillWarnings(list, warnings) {
  list.hidden = warnings.length === 0;
  const shown = [...list.children].map((each) => each.textContent);
  if (JSON.stringify(shown) === JSON.stringify(warnings)) return;
  list.replaceChildren(...warnings.map((each) => piece("li", {}, each)));
}

/** @param {HTMLElement} row @param {any} run @param {number} waited seconds since it was asked for */
function fillWaiting(row, run, waited) {
  say(part(row, "status"), run.position ? `waiting #${run.position}` : run.step || "waiting for an agent");
  say(part(row, "place"), `on ${run.backend}`);
  row.dataset.asked = String(performance.now() / 1000 - waited);
  row.dataset.agents = run.n_agents === null ? "" : String(run.n_agents);
  row.dataset.start = startCommand(run.backend);
  sayWait(row);
}

/** How long a run has waited for an agent, and what to do while none is polling. @param {HTMLElement} row */
function sayWait(row) {
  const { asked, agents, start } = row.dataset;
  // A row that no status has filled yet keeps what the server wrote.
  if (asked === undefined) return;
  const waited = `for ${whole(performance.now() / 1000 - Number(asked))}`;
  const isAlone = agents === "0";
  say(part(row, "wait"), agents ? waited + (isAlone ? "; no agent is polling. On the training machine:" : "") : "");
  say(part(row, "start"), isAlone ? (start ?? "") : "");
}

/** @param {any} status */
function drawTrouble({ trouble }) {
  const place = byId("trouble");
  const key = JSON.stringify(trouble);
  if (place.dataset.drawn === key) return;
  place.dataset.drawn = key;
  place.replaceChildren(...(trouble ? [notice(trouble.level, trouble.title, trouble.text)] : []));
}

/** How a run ended, until the next one does. @param {any} run */
export function drawEnded(run) {
  const level = { success: "good", error: "error", interrupted: "warning" }[run.status] ?? "busy";
  const link = piece("a", { href: RUNS + encodeURIComponent(run.run_id) }, "Open the run");
  byId("ended").replaceChildren(notice(level, endSentence(run), run.error, link));
}

/** @param {any} run */
export function endSentence(run) {
  const { headline } = run;
  const score = headline ? `: held-out ${headline.split} ${headline.metric} ${headline.value.toFixed(3)}` : "";
  const ended = { success: "has finished", error: "has failed", cancelled: "was cancelled" }[run.status];
  return `${nameOf(run)} ${ended ?? "was interrupted"}${score}.`;
}

/** @param {any} status */
export const stepSentence = (status) => (status.runs[0] ? `${nameOf(status.runs[0])}: ${stepOf(status.runs[0])}` : "");
