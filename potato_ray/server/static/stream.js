// @ts-check
/** The state of things, from the server's stream; by asking every few seconds when the stream fails. */

import { Refused, call } from "./api.js";

const STREAM = "/admin/training/api/stream";
const POLL_MS = 3_000;
const SILENT_MS = 45_000;
const STREAM_AGAIN_MS = 20_000;

/** @typedef {{onStatus: (status: any, behind: boolean) => void, onConnection: (how: string) => void, onRun?: (event: any) => void}} Tell */

/**
 * Tell `onStatus` the newest status as often as it changes, and `onConnection` how the server is reached:
 * live, polling, lost or logged-out; `onRun` the events of `run`, as far as they come by the stream. A status
 * is `behind` when events before it may not have been told. While nobody looks at the page nothing is asked.
 * @param {Tell} tell @param {string} [run]
 */
export function follow(tell, run) {
  const follower = new Follower(tell, run ? `${STREAM}?run_id=${encodeURIComponent(run)}` : STREAM);
  document.addEventListener("visibilitychange", () => follower.wanted(!document.hidden));
  window.addEventListener("pagehide", () => follower.wanted(false));
  window.addEventListener("pageshow", () => follower.wanted(!document.hidden));
  follower.wanted(!document.hidden);
  return follower;
}

class Follower {
  /** @param {Tell} tell @param {string} stream its address */
  constructor(tell, stream) {
    this.tell = tell;
    this.stream = stream;
    /** @type {EventSource | null} */
    this.source = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.poll = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.silence = undefined;
    /** A chain of polls is under way; `round` tells it from those that were given up. */
    this.polling = false;
    this.round = 0;
    this.on = false;
    this.over = false;
    this.asked = 0;
    this.streamFailedAt = 0;
    /** The stream has told a status, and since then every event. */
    this.joined = false;
  }

  /** There is nothing more to follow. */
  stop() {
    this.wanted(false);
    this.over = true;
  }

  /** @param {boolean} on */
  wanted(on) {
    if (on === this.on || this.over) return;
    this.on = on;
    if (on) this.open();
    else this.close();
  }

  /** Ask once, now: something was changed from here. */
  async refresh() {
    const number = ++this.asked;
    try {
      const status = await call("/status", { signal: AbortSignal.timeout(10_000) });
      // An answer that something newer has overtaken is not news.
      if (number === this.asked && this.on) this.tell.onStatus(status, true);
      return "polling";
    } catch (error) {
      return error instanceof Refused && error.status === 401 ? "logged-out" : "lost";
    }
  }

  open() {
    this.close();
    const source = new EventSource(this.stream);
    this.source = source;
    this.joined = false;
    source.addEventListener("status", (event) => this.heard(JSON.parse(event.data)));
    source.addEventListener("run", (event) => {
      this.listen();
      this.tell.onRun?.(JSON.parse(event.data));
    });
    source.onerror = () => this.failed();
    this.listen();
  }

  close() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.silence);
    this.endPolling();
  }

  endPolling() {
    this.round += 1;
    this.polling = false;
    clearTimeout(this.poll);
  }

  /** @param {any} status */
  heard(status) {
    this.asked += 1;
    this.endPolling();
    this.listen();
    this.tell.onConnection("live");
    const behind = !this.joined;
    this.joined = true;
    this.tell.onStatus(status, behind);
  }

  /** A connection may be dead without saying so: after a while of silence, ask. */
  listen() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.failed(), SILENT_MS);
  }

  failed() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.silence);
    this.streamFailedAt = Date.now();
    if (this.on && !this.polling) void this.ask();
  }

  async ask() {
    this.polling = true;
    const mine = this.round;
    const how = await this.refresh();
    if (mine !== this.round) return;
    this.tell.onConnection(how);
    this.poll = setTimeout(() => this.next(how), POLL_MS);
  }

  /** @param {string} how */
  next(how) {
    const due = Date.now() - this.streamFailedAt > STREAM_AGAIN_MS;
    if (how === "polling" && due) this.open();
    else void this.ask();
  }
}
