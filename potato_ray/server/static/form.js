// @ts-check
/** The form that starts a run. */

import { Refused, call, problemOf } from "./api.js";
import { checkBackend, forgetCheck } from "./check.js";
import { clearErrors, showError, showFirst } from "./form_errors.js";
import { piece, problemNotice, say } from "./pieces.js";

/** @param {string} id */
const control = (id) => /** @type {HTMLSelectElement} */ (document.getElementById(id));

/** A key of this start alone: repeated, it starts nothing twice. */
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** @param {{onStarted: (run: any) => void}} tell */
export function startForm({ onStarted }) {
  const form = /** @type {HTMLFormElement | null} */ (document.getElementById("start"));
  if (!form) return;
  new StartForm(form, onStarted);
}

class StartForm {
  /** @param {HTMLFormElement} form @param {(run: any) => void} onStarted */
  constructor(form, onStarted) {
    this.form = form;
    this.onStarted = onStarted;
    this.key = newKey();
    this.sending = false;
    /** Every scheme; the menu offers those that the chosen trainer learns. */
    this.schemes = [...control("scheme").options];
    control("trainer").addEventListener("change", () => this.showTrainer());
    control("scheme").addEventListener("change", () => show("of-scheme", control("scheme").value));
    control("backend").addEventListener("change", () => {
      show("of-backend", control("backend").value);
      forgetCheck();
    });
    document.getElementById("check")?.addEventListener("click", () => void checkBackend(control("backend").value));
    form.addEventListener("input", () => (this.key = newKey()));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.submit();
    });
    /** @type {HTMLButtonElement} */ (document.getElementById("start-button")).disabled = false;
    // A browser that comes back to the page fills in what was chosen before.
    this.showTrainer();
    show("of-backend", control("backend").value);
  }

  showTrainer() {
    const trainer = control("trainer").value;
    show("of-trainer", trainer);
    const before = control("scheme").value;
    const offered = this.schemes.filter((each) => each.dataset.trainers?.split(" ").includes(trainer));
    control("scheme").replaceChildren(...offered);
    control("scheme").value = offered.some((each) => each.value === before) ? before : (offered[0]?.value ?? "");
    show("of-scheme", control("scheme").value);
  }

  /** The part of the form that belongs to the chosen trainer. */
  get own() {
    const parts = [...this.form.querySelectorAll("fieldset")];
    return /** @type {HTMLElement} */ (parts.find((each) => each.dataset.ofTrainer === control("trainer").value));
  }

  async submit() {
    if (this.sending) return;
    clearErrors(this.form);
    const params = readParams(this.own);
    if (!params) return showFirst(this.form);
    this.busy(true);
    try {
      this.started(await this.send(params));
    } catch (error) {
      this.refused(error);
    } finally {
      this.busy(false);
    }
  }

  /** @param {Record<string, unknown>} params */
  send(params) {
    const licence = /** @type {HTMLInputElement | null} */ (this.own.querySelector("[data-licence]"));
    const body = {
      trainer: control("trainer").value,
      schemas: [control("scheme").value],
      backend: control("backend").value,
      params,
      ...(licence ? { accept_licence: licence.checked } : {}),
    };
    return call("/runs", { method: "POST", body, headers: { "Idempotency-Key": this.key } });
  }

  /** @param {any} run */
  started(run) {
    this.key = newKey();
    const said = document.getElementById("start-said");
    const where = piece("a", { href: `/admin/training/runs/${encodeURIComponent(run.run_id)}` }, "Open the run");
    said?.replaceChildren(startedWords(run), where);
    this.onStarted(run);
  }

  /** @param {unknown} error */
  refused(error) {
    // Without an answer, or with one that the server (or a proxy) broke off, the run may have been started:
    // the same key finds it again.
    if (error instanceof Refused && error.status < 500) this.key = newKey();
    const problem = problemOf(error);
    if (this.showAtField(problem)) return showFirst(this.form);
    if (problem.error_code === "unreachable") problem.next_step += " What you entered is still here.";
    document.getElementById("start-problem")?.replaceChildren(problemNotice(problem));
  }

  /** @param {import("./api.js").Problem} problem */
  showAtField(problem) {
    const field = this.fieldOf(problem);
    const whole = [problem.error, problem.evidence, problem.next_step].filter(Boolean).join(" ");
    const text = problem.error_code === "licence_not_confirmed" ? "Read the licence, and tick this to start." : whole;
    if (field) showError(field, text);
    return Boolean(field);
  }

  /** @param {import("./api.js").Problem} problem @returns {HTMLElement | null} */
  fieldOf({ error, error_code }) {
    if (error_code === "bad_params") {
      const named = [...this.own.querySelectorAll("[data-param]")].map((each) => /** @type {HTMLElement} */ (each));
      return named.find((each) => error.includes(`: ${each.dataset.param} `)) ?? null;
    }
    const name = FIELDS[error_code];
    const place = name === "licence" ? this.own : this.form;
    return name ? place.querySelector(`[data-field="${name}"]`) : null;
  }

  /** @param {boolean} on */
  busy(on) {
    this.sending = on;
    const button = /** @type {HTMLButtonElement} */ (document.getElementById("start-button"));
    button.setAttribute("aria-disabled", String(on));
    say(button, on ? "Starting…" : "Start run");
    if (on) document.getElementById("start-said")?.replaceChildren();
  }
}

/** @param {any} run */
function startedWords({ queued, position }) {
  if (!queued) return "Started. ";
  return position ? `It waits as #${position}. ` : "It waits for an agent. ";
}

/** Which field a refusal belongs to. @type {Record<string, string>} */
const FIELDS = {
  unknown_trainer: "trainer",
  unknown_schema: "scheme",
  untrainable_schema: "scheme",
  unknown_backend: "backend",
  local_only: "backend",
  licence_not_confirmed: "licence",
};

/** @param {string} kind @param {string} value */
function show(kind, value) {
  for (const each of document.querySelectorAll(`[data-${kind}]`)) {
    /** @type {HTMLElement} */ (each).hidden = each.getAttribute(`data-${kind}`) !== value;
  }
}

/**
 * The parameters that were filled in; null, and the errors shown, when one cannot be read.
 * @param {HTMLElement} own
 */
function readParams(own) {
  /** @type {Record<string, unknown>} */
  const params = {};
  let right = true;
  for (const field of own.querySelectorAll("[data-param]")) {
    const { param = "", type = "" } = /** @type {HTMLElement} */ (field).dataset;
    try {
      const value = READERS[type](/** @type {HTMLInputElement} */ (field.querySelector("input, select, textarea")));
      if (value !== undefined) params[param] = value;
    } catch (wrong) {
      showError(/** @type {HTMLElement} */ (field), /** @type {Error} */ (wrong).message);
      right = false;
    }
  }
  return right ? params : null;
}

/**
 * From a control to its value; undefined: left as it is. Each throws an Error that says what to write.
 * @type {Record<string, (input: HTMLInputElement) => unknown>}
 */
const READERS = {
  int: readNumber,
  float: readNumber,
  bool: (input) => (input.checked === input.defaultChecked ? undefined : input.checked),
  str: readText,
  choice: readText,
  dotted_path: readText,
  mapping: readObject,
};

/** @param {HTMLInputElement} input */
function readText(input) {
  return input.value.trim() || undefined;
}

/** @param {HTMLInputElement} input */
function readNumber(input) {
  if (input.validity.badInput) throw new Error("Write a number.");
  if (input.value === "") return undefined;
  if (input.validity.stepMismatch) throw new Error("Write a whole number.");
  if (input.validity.rangeUnderflow) throw new Error(`Write ${input.min} or more.`);
  if (input.validity.rangeOverflow) throw new Error(`Write ${input.max} or less.`);
  return Number(input.value);
}

/** @param {HTMLInputElement} input */
function readObject(input) {
  const text = input.value.trim();
  if (!text) return undefined;
  const value = parse(text);
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new Error('Write a JSON object, such as {"C": 2.0}.');
  }
  return value;
}

/** @param {string} text */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch (wrong) {
    throw new Error(`This is no JSON; an object looks like {"C": 2.0}. ${/** @type {Error} */ (wrong).message}.`);
  }
}
