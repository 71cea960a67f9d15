// @ts-check
/** Files of a run that stay on its host: fetched here one by one, and removed over there. */

import { announce } from "./announce.js";
import { call, problemOf } from "./api.js";
import { piece, problemNotice, say } from "./pieces.js";
import { sureButtons } from "./sure.js";
import { fileSize } from "./wording.js";

const LOOK_EVERY_MS = 1_000;
const AGAIN_MS = 5_000;
/** With more files than this the list scrolls in its own box. */
const TALL = 12;

/** @typedef {{path: string, bytes: number, state: string, here_bytes: number, problem: import("./api.js").Problem | null}} RemoteFile */

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

const isUnderWay = (/** @type {RemoteFile} */ file) => file.state === "waiting" || file.state === "fetching";

/** @type {RemoteFiles | undefined} */
let shown;

/**
 * Bring the section to life, where the page has it.
 * @param {string} run
 * @param {(said: string) => Promise<void>} showAnew draws the page again when they are removed
 */
export function remoteFiles(run, showAnew) {
  shown?.leave();
  shown = undefined;
  if (!document.getElementById("remote-files")) return;
  shown = new RemoteFiles(run, showAnew);
  void shown.look();
}

class RemoteFiles {
  /** @param {string} run @param {(said: string) => Promise<void>} showAnew */
  constructor(run, showAnew) {
    this.run = `/runs/${encodeURIComponent(run)}`;
    this.host = byId("remote-files").dataset.host ?? "";
    /** @type {Map<string, Row>} */
    this.rows = new Map();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.next = undefined;
    this.left = false;
    byId("remote-rows").addEventListener("click", (event) => this.pressed(event));
    byId("look-again").addEventListener("click", () => void this.look());
    this.removal(showAnew);
  }

  leave() {
    this.left = true;
    clearTimeout(this.next);
  }

  /** Ask what is there, and go on asking while something is under way. */
  async look() {
    clearTimeout(this.next);
    const again = byId("remote-again");
    byId("remote-looking").hidden = this.rows.size > 0;
    try {
      const { files } = await call(`${this.run}/remote-files`);
      if (this.left) return;
      byId("remote-problem").replaceChildren();
      again.hidden = true;
      this.draw(files);
      if (files.some(isUnderWay)) this.next = setTimeout(() => void this.look(), LOOK_EVERY_MS);
    } catch (error) {
      if (this.left) return;
      byId("remote-problem").replaceChildren(problemNotice(problemOf(error)));
      again.hidden = false;
      if ([...this.rows.values()].some((row) => isUnderWay(row.file))) {
        this.next = setTimeout(() => void this.look(), AGAIN_MS);
      }
    } finally {
      byId("remote-looking").hidden = true;
    }
  }

  /** @param {RemoteFile[]} files */
  draw(files) {
    const paths = new Set(files.map((file) => file.path));
    for (const [path, row] of this.rows) {
      if (paths.has(path)) continue;
      row.element.remove();
      this.rows.delete(path);
    }
    for (const file of files) this.drawOne(file);
    byId("remote-list").hidden = files.length === 0;
    byId("remote-list").classList.toggle("tall", files.length > TALL);
    byId("remote-removal").hidden = files.some(isUnderWay);
    const missing = files.filter((file) => file.state !== "here").length;
    const words = missing === 1 ? "1 file is not here and would be lost." : `${missing} files are not here and would be lost.`;
    say(byId("remote-unfetched"), missing ? words : "All of its files are here.");
  }

  /** @param {RemoteFile} file */
  drawOne(file) {
    const row = this.rows.get(file.path);
    if (row) return row.show(file);
    const made = new Row(this.run, file);
    this.rows.set(file.path, made);
    byId("remote-rows").append(made.element);
  }

  /** @param {Event} event */
  async pressed({ target }) {
    const button = target instanceof Element ? target.closest("button") : null;
    const row = [...this.rows.values()].find((each) => each.button === button);
    if (!button || !row || button.getAttribute("aria-disabled") === "true") return;
    const method = isUnderWay(row.file) ? "DELETE" : "POST";
    button.setAttribute("aria-disabled", "true");
    try {
      this.drawOne(await call(`${this.run}/remote-files/${row.address}`, { method }));
      byId("remote-problem").replaceChildren();
    } catch (error) {
      byId("remote-problem").replaceChildren(problemNotice(problemOf(error)));
    } finally {
      button.removeAttribute("aria-disabled");
    }
    clearTimeout(this.next);
    if (!this.left) this.next = setTimeout(() => void this.look(), LOOK_EVERY_MS / 4);
  }

  /** @param {(said: string) => Promise<void>} showAnew */
  removal(showAnew) {
    sureButtons(byId("remove-remote"), "#remove-remote", {
      asking: "Press again to remove",
      doing: "Removing…",
      onAsk: () => announce(`Press again to remove the files from ${this.host}, or Escape to keep them.`, { now: true }),
      act: async () => {
        try {
          await call(`${this.run}/remote-files`, { method: "DELETE" });
        } catch (error) {
          byId("remote-problem").replaceChildren(problemNotice(problemOf(error)));
          return false;
        }
        await showAnew(`The files were removed from ${this.host}.`).catch(() => window.location.reload());
        return true;
      },
    });
  }
}

/** One file. Its button stays the same element whatever it does, so that it keeps the focus. */
class Row {
  /** @param {string} run @param {RemoteFile} file */
  constructor(run, file) {
    this.address = file.path.split("/").map(encodeURIComponent).join("/");
    this.words = piece("span", { class: "small figures" });
    this.meter = /** @type {HTMLProgressElement} */ (piece("progress", { "aria-label": `Progress of ${file.path}` }));
    this.button = piece("button", { type: "button" });
    this.link = piece("a", { href: `/admin/training/api${run}/artifacts/${this.address}`, download: "" }, "Download");
    this.element = piece(
      "tr",
      { role: "row" },
      piece("td", { role: "cell", class: "name path" }, file.path),
      piece("td", { role: "cell", class: "size right figures" }, fileSize(file.bytes)),
      piece(
        "td",
        { role: "cell", class: "state" },
        piece("div", { class: "remote-state" }, this.meter, this.words, this.link, this.button),
      ),
    );
    this.file = file;
    this.show(file);
  }

  /** @param {RemoteFile} file */
  show(file) {
    const before = this.file.state;
    this.file = file;
    const here = file.state === "here";
    const failed = file.state === "failed";
    if (here && this.button === document.activeElement) {
      this.link.hidden = false;
      this.link.focus();
    }
    this.link.hidden = !here;
    this.button.hidden = here;
    const does = isUnderWay(file) ? "Stop" : failed ? "Fetch again" : "Fetch";
    say(this.button, does);
    this.button.setAttribute("aria-label", `${does} ${file.path}`);
    this.meter.hidden = file.state !== "fetching";
    this.meter.max = file.bytes || 1;
    this.meter.value = file.here_bytes;
    say(this.words, wordsOf(file));
    if (before !== file.state) this.tell(before);
  }

  /** @param {string} before */
  tell(before) {
    const { path, state, problem } = this.file;
    if (state === "here") announce(`${path} is here.`, { now: true });
    if (state === "failed") announce(`${path} could not be fetched. ${problem?.error ?? ""}`, { now: true });
    if (state === "fetching" && before !== "waiting") announce(`${path} is being fetched.`);
  }
}

/** @param {RemoteFile} file */
function wordsOf({ state, bytes, here_bytes, problem }) {
  if (state === "waiting") return "waiting";
  if (state === "fetching") return `${fileSize(here_bytes)}, ${bytes ? Math.floor((100 * here_bytes) / bytes) : 100} %`;
  if (state === "failed") return [problem?.error, problem?.evidence, problem?.next_step].filter(Boolean).join(" ");
  return "";
}
