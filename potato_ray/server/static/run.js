// @ts-check
/** The page of one run: what moves while it is under way, and the page anew when it has ended. */

import { Refused, call } from "./api.js";
import { cancelButtons } from "./cancel.js";
import { isKnown, showConnection } from "./connection.js";
import { piece, say } from "./pieces.js";
import { remoteFiles } from "./remote_files.js";
import { Curves } from "./run_curves.js";
import { follow } from "./stream.js";
import { localTimes } from "./times.js";
import { withdrawButton } from "./withdraw.js";
import { duration, number, progressWords } from "./wording.js";

const LOG_LINES = 200;
const PAGE = 1_000;
const DRAW_EVERY_MS = 500;
const AGAIN_MS = 3_000;
const ENDED = new Set(["success", "error", "cancelled", "interrupted"]);

/** @param {string} id */
const byId = (id) => document.getElementById(id);

/** @param {string} name */
const part = (name) => /** @type {HTMLElement | null} */ (document.querySelector(`[data-part="${name}"]`));

const run = byId("run")?.dataset.run ?? "";
const path = `/runs/${encodeURIComponent(run)}`;

/** Events of the run, each once and in their order, whichever way they come. */
class Events {
  constructor() {
    this.curves = new Curves();
    this.last = 0;
    this.logged = 0;
    this.attempt = 0;
    this.busy = false;
    /** Events are known to be missing, or may be. */
    this.behind = false;
    this.drawAt = 0;
  }

  /** The page is there, or there anew: its log goes up to some event already. */
  attach() {
    this.logged = Number(byId("run")?.dataset.after ?? 0);
    this.drawSoon();
  }

  /** One event from the stream; where others are missing before it, they are fetched. @param {any} event */
  take(event) {
    if (typeof event.id !== "number" || event.id <= this.last) return;
    if (event.id > this.last + 1) void this.catchUp();
    else this.use(event);
  }

  /** Fetch all that is new: however long the run, its curves have no gap. */
  async catchUp() {
    this.behind = true;
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.behind) {
        this.behind = false;
        await this.fetchNew();
      }
    } catch {
      this.behind = true; // The next status, or the next event, tries again.
    } finally {
      this.busy = false;
    }
  }

  async fetchNew() {
    let before;
    do {
      before = this.last;
      const { events } = await call(`${path}/events?after=${before}&limit=${PAGE}`);
      for (const event of events) if (event.id > this.last) this.use(event);
    } while (this.last >= before + PAGE);
  }

  /** @param {any} event */
  use(event) {
    this.last = event.id;
    if (event.attempt > this.attempt) {
      // A new attempt trains from the beginning, and so do its curves.
      this.attempt = event.attempt;
      this.curves = new Curves();
    }
    if (event.event === "metric") this.curves.add(event);
    if (event.id > this.logged) {
      this.logged = event.id;
      addToLog(event.line);
    }
    this.drawSoon();
  }

  drawSoon() {
    if (this.drawAt) return;
    this.drawAt = window.setTimeout(() => {
      this.drawAt = 0;
      const place = byId("curves-drawn");
      const section = byId("curves");
      if (place && section) section.hidden = !this.curves.draw(place);
    }, DRAW_EVERY_MS);
  }
}

/** The log keeps its last lines, and stays at its end where the reader has left it there. @param {string} line */
function addToLog(line) {
  const log = byId("log");
  if (!log || !line) return;
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 24;
  log.append(`${line}\n`);
  const lines = (log.textContent ?? "").split("\n");
  if (lines.length > 2 * LOG_LINES) log.textContent = lines.slice(-LOG_LINES - 1).join("\n");
  if (atEnd) log.scrollTop = log.scrollHeight;
  const nothing = byId("no-log");
  if (nothing) nothing.hidden = true;
}

// The state -----------------------------------------------------------------------------------------

let spoken = "";

/** @param {any} status @param {boolean} behind whether events before it may be missing here */
function onStatus(status, behind) {
  const working = status.runs.find((/** @type {any} */ each) => each.run_id === run);
  const waiting = status.queue.find((/** @type {any} */ each) => each.run_id === run);
  if (working) drawWorking(working);
  else if (waiting) drawWaiting(waiting, status.server_time - waiting.created_at);
  else void endIfEnded();
  if (behind || events.behind) void events.catchUp();
}

/** @param {any} working */
function drawWorking(working) {
  drawStatus(working.status, working.status);
  drawNoAgent(null);
  say(part("step"), working.step || working.phase || working.status);
  since = performance.now() - 1000 * working.elapsed_s;
  drawElapsed();
  drawMeter(working);
  drawCancel(working.can_cancel);
  drawReported(working.metrics);
  drawWarnings(working.warnings);
  speak(`${working.status}: ${working.step || working.phase || ""}`);
}

/** When the run left the queue, by this page's own clock. @type {number | undefined} */
let since;

/** Nothing is counted on while nobody knows whether the run goes on. */
function drawElapsed() {
  say(part("elapsed"), since !== undefined && isKnown() ? `for ${duration((performance.now() - since) / 1000)}` : "");
}

/** What to do while no agent is there to take the run. @param {number | null} nAgents null: it is for none */
function drawNoAgent(nAgents) {
  const told = part("no-agent");
  if (told) told.hidden = nAgents !== 0;
}

/** @param {any} waiting @param {number} waited seconds since it was asked for */
function drawWaiting({ position, step, n_agents }, waited) {
  const label = position ? `waiting #${position}` : step || "waiting for an agent";
  drawStatus("queued", label);
  say(part("step"), label);
  drawNoAgent(n_agents);
  // It may have left the queue before, and come back; only a wait for an agent is counted.
  since = n_agents === null ? undefined : performance.now() - 1000 * waited;
  drawElapsed();
  drawMeter({ total: 0, current: 0, eta_s: null });
  drawCancel(true);
  drawReported({});
  drawWarnings([]);
  speak(label);
}

/** @param {boolean} can whether the run can be cancelled */
function drawCancel(can) {
  const cancel = document.querySelector("[data-cancel]");
  if (!(cancel instanceof HTMLElement)) return;
  if (!can && cancel === document.activeElement) byId("title")?.focus();
  cancel.hidden = !can;
}

/** @param {string} status @param {string} label */
function drawStatus(status, label) {
  const shown = part("status")?.firstElementChild;
  if (!shown) return;
  shown.className = `status status-${status}`;
  say(shown, label);
}

/** @param {{total: number, current: number, eta_s: number | null}} working */
function drawMeter(working) {
  const progress = /** @type {HTMLProgressElement | null} */ (part("progress"));
  if (!progress) return;
  const known = working.total > 0;
  progress.hidden = !known;
  if (known) {
    progress.max = working.total;
    progress.value = working.current;
  }
  say(part("figures"), known ? progressWords(working) : "");
}

/** @param {Record<string, unknown>} metrics */
function drawReported(metrics) {
  const rows = Object.entries(metrics).sort(([one], [other]) => (one < other ? -1 : 1));
  const place = byId("reported");
  if (!place) return;
  place.hidden = rows.length === 0;
  part("metrics")?.replaceChildren(
    ...rows.map(([name, value]) =>
      piece(
        "tr",
        {},
        piece("td", { class: "right figures" }, value === null ? "–" : number(value)),
        piece("th", { scope: "row", class: "name" }, name),
      ),
    ),
  );
}

/** Those that are there already stay in their groups; those of an attempt that was cut off go.
 *  @param {string[]} warnings */
function drawWarnings(warnings) {
  const section = byId("warnings");
  const list = byId("new-warnings");
  if (!section || !list) return;
  const known = new Set();
  for (const each of section.querySelectorAll("li")) {
    if (warnings.includes(each.textContent ?? "")) known.add(each.textContent);
    else each.remove();
  }
  list.append(...warnings.filter((each) => !known.has(each)).map((each) => piece("li", {}, each)));
  for (const group of /** @type {NodeListOf<HTMLElement>} */ (section.querySelectorAll(".notice"))) {
    group.hidden = !group.querySelector("li");
  }
  section.hidden = warnings.length === 0;
}

/** @param {string} text */
function speak(text) {
  if (text === spoken) return;
  spoken = text;
  say(byId("said"), text);
}

// The end -------------------------------------------------------------------------------------------

let ending = false;

/** The run is in no list of what goes on: ask about it, and show the page of its end. */
async function endIfEnded() {
  if (ending) return;
  ending = true;
  try {
    const { status } = await call(path);
    if (ENDED.has(status)) await showAnew(`The run has ended: ${status}.`);
  } catch (error) {
    if (error instanceof Refused && error.status === 404) window.location.reload();
  } finally {
    ending = false;
  }
}

/** Put the server's present page in place of this one. @param {string} said what is told to those who listen */
async function showAnew(said) {
  const answer = await fetch(window.location.href, { cache: "no-store" });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("run");
  const old = byId("run");
  if (!answer.ok || !fresh || !old) return window.location.reload();
  const focused = old.contains(document.activeElement);
  old.replaceWith(fresh);
  document.title = page.title;
  if (focused) byId("title")?.focus();
  begin();
  say(byId("said"), said);
}

// The beginning -------------------------------------------------------------------------------------

const events = new Events();
/** @type {ReturnType<typeof follow> | undefined} */
let follower;

function begin() {
  localTimes();
  events.attach();
  const live = byId("run")?.dataset.live === "yes";
  withdrawButton(run, showAnew);
  remoteFiles(run, showAnew);
  if (!live) {
    follower?.stop();
    // A run without a picture of its curves: one that failed or was stopped.
    if (byId("curves-drawn")) void events.catchUp();
    return;
  }
  const log = byId("log");
  if (log) log.scrollTop = log.scrollHeight;
  const now = byId("now");
  const problems = byId("cancel-problem");
  if (now && problems) cancelButtons(now, problems, () => void follower?.refresh());
  follower ??= follow(
    {
      onStatus: (/** @type {any} */ status, /** @type {boolean} */ behind) =>
        document.querySelector('#run[data-live="yes"]') && onStatus(status, behind),
      onRun: (/** @type {any} */ event) => events.take(event),
      onConnection: showConnection,
    },
    run,
  );
}

begin();
window.setInterval(drawElapsed, 1_000);
// A page that the browser kept may be older than the run's end.
window.addEventListener("pageshow", (event) => event.persisted && window.setTimeout(endIfEnded, AGAIN_MS));
