// @ts-check
/** The form that starts a run. */

import { Refused, call, problemOf } from "./api.js";
import { checkBackend, forgetCheck } from "./check.js";
import { copyButtons } from "./copying.js";
import { clearErrorAt, clearErrors, showError, showFirst } from "./form_errors.js";
import { controlsOf, isLeftOut, readParams } from "./form_values.js";
import { piece, problemNotice, say } from "./pieces.js";

/** The backend whose runs take the server's own Python. */
const LOCAL = "local";

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
      this.showMissing();
      forgetCheck();
    });
    document.getElementById("check")?.addEventListener("click", () => void checkBackend(control("backend").value));
    form.addEventListener("input", (event) => {
      this.key = newKey();
      clearErrorAt(/** @type {Element} */ (event.target));
    });
    form.addEventListener("change", () => this.unfold());
    copyButtons();
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.submit();
    });
    this.button.disabled = false;
    // A browser that comes back to the page fills in what was chosen before.
    show("of-backend", control("backend").value);
    this.showTrainer();
    this.unfold();
  }

  get button() {
    return /** @type {HTMLButtonElement} */ (document.getElementById("start-button"));
  }

  showTrainer() {
    const trainer = control("trainer").value;
    show("of-trainer", trainer);
    const before = control("scheme").value;
    const offered = this.schemes.filter((each) => each.dataset.trainers?.split(" ").includes(trainer));
    control("scheme").replaceChildren(...offered);
    control("scheme").value = offered.some((each) => each.value === before) ? before : (offered[0]?.value ?? "");
    show("of-scheme", control("scheme").value);
    clearErrorAt(control("scheme")); // it was of the trainer before
    this.showMissing();
  }

  /** What the server's Python lacks for the chosen trainer; on local nothing can be started then. */
  showMissing() {
    const onLocal = control("backend").value === LOCAL;
    show("missing", control("trainer").value);
    for (const each of this.form.querySelectorAll("[data-on-local], [data-elsewhere]")) {
      /** @type {HTMLElement} */ (each).hidden = each.hasAttribute("data-on-local") !== onLocal;
    }
    this.showReady();
  }

  /** The notice of what keeps the chosen trainer from running where it would. */
  get hindrance() {
    const notices = [...this.form.querySelectorAll("[data-missing]")].map((each) => /** @type {HTMLElement} */ (each));
    return control("backend").value === LOCAL ? notices.find((each) => !each.hidden) : undefined;
  }

  showReady() {
    this.button.setAttribute("aria-disabled", String(this.sending || Boolean(this.hindrance)));
  }

  /** The members of what is switched on, and no control of what is left out. */
  unfold() {
    for (const knob of this.form.querySelectorAll("[data-switch]")) {
      const members = /** @type {HTMLElement} */ (knob.closest("[data-param]")?.querySelector("[data-members]"));
      members.hidden = !(/** @type {HTMLInputElement} */ (knob).checked);
    }
    for (const field of this.form.querySelectorAll("[data-param]")) {
      const out = isLeftOut(field);
      for (const each of controlsOf(field)) each.disabled = out;
    }
  }

  /** The part of the form that belongs to the chosen trainer. */
  get own() {
    const parts = [...this.form.querySelectorAll("fieldset")];
    return /** @type {HTMLElement} */ (parts.find((each) => each.dataset.ofTrainer === control("trainer").value));
  }

  async submit() {
    if (this.sending) return;
    clearErrors(this.form);
    if (this.hindrance) return this.hindrance.focus();
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
    if (problem.error_code === "bad_params") return this.showAtParams(problem);
    const field = this.fieldOf(problem);
    const whole = [problem.error, problem.evidence, problem.next_step].filter(Boolean).join(" ");
    const text = problem.error_code === "licence_not_confirmed" ? "Read the licence, and tick this to start." : whole;
    if (field) showError(field, text);
    return Boolean(field);
  }

  /**
   * Each parameter that is wrong at its own field; false when one of them has none.
   * @param {import("./api.js").Problem} problem
   */
  showAtParams({ error }) {
    const told = error.split(`; ${control("trainer").value}`).map((each) => [this.paramOf(each), each]);
    if (!told.every(([field]) => field)) return false;
    for (const [field, text] of told) {
      showError(/** @type {HTMLElement} */ (field), `${text}`.replace(/^.*?: /, ""));
    }
    return true;
  }

  /** @param {string} sentence as `setfit: body_epochs must be ...`, or with an argument's name behind it @returns {HTMLElement | null} */
  paramOf(sentence) {
    const fields = [...this.own.querySelectorAll("[data-param]")].map((each) => /** @type {HTMLElement} */ (each));
    const named = sentence.split(": ").slice(1).map((part) => part.split(" ")[0]);
    return named.map((name) => fields.find((each) => each.dataset.param === name)).find(Boolean) ?? null;
  }

  /** @param {import("./api.js").Problem} problem @returns {HTMLElement | null} */
  fieldOf({ error_code }) {
    const name = FIELDS[error_code];
    const place = name === "licence" ? this.own : this.form;
    return name ? place.querySelector(`[data-field="${name}"]`) : null;
  }

  /** @param {boolean} on */
  busy(on) {
    this.sending = on;
    this.showReady();
    say(this.button, on ? "Starting…" : "Start run");
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
  missing_dependency: "trainer",
  licence_not_confirmed: "licence",
};

/** @param {string} kind @param {string} value */
function show(kind, value) {
  for (const each of document.querySelectorAll(`[data-${kind}]`)) {
    /** @type {HTMLElement} */ (each).hidden = each.getAttribute(`data-${kind}`) !== value;
  }
}
