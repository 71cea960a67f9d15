// @ts-check
/** What was filled into the fields of parameters, as the values that a start takes. */

import { showError } from "./form_errors.js";

/** Something is wrong with a field. */
class Wrong extends Error {}

/**
 * The parameters that were filled in; null, and the errors shown, when one cannot be read.
 * @param {HTMLElement} own the part of the form that belongs to a trainer
 * @returns {Record<string, unknown> | null}
 */
export function readParams(own) {
  const reading = new Reading();
  const params = reading.all(own);
  return reading.right ? params : null;
}

/** Fields of parameters inside a part of the form, without those inside another one. @param {HTMLElement} part */
const fieldsIn = (part) =>
  [...part.querySelectorAll("[data-param]")]
    .map((each) => /** @type {HTMLElement} */ (each))
    .filter((each) => each.parentElement?.closest("[data-param]") === part.closest("[data-param]"));

class Reading {
  right = true;

  /** @param {HTMLElement} part */
  all(part) {
    /** @type {Record<string, unknown>} */
    const values = {};
    for (const field of fieldsIn(part)) {
      const name = field.dataset.param?.split(".").pop() ?? "";
      const value = this.one(field);
      if (value !== undefined) values[name] = value;
    }
    return values;
  }

  /** @param {HTMLElement} field */
  one(field) {
    if (isLeftOut(field)) return null;
    if (field.hasAttribute("data-given")) return this.group(field);
    try {
      return readField(field);
    } catch (wrong) {
      if (!(wrong instanceof Wrong)) throw wrong;
      showError(field, wrong.message);
      this.right = false;
      return undefined;
    }
  }

  /**
   * A mapping: false or true by its switch alone, else what is configured with what was filled in.
   * @param {HTMLElement} field
   */
  group(field) {
    const knob = /** @type {HTMLInputElement | null} */ (field.querySelector("[data-switch]"));
    if (knob && !knob.checked) return knob.defaultChecked ? false : undefined;
    const members = this.all(/** @type {HTMLElement} */ (field.querySelector("[data-members]")));
    if (Object.keys(members).length) return { ...JSON.parse(field.dataset.given ?? "{}"), ...members };
    return knob && !knob.defaultChecked ? true : undefined;
  }
}

/**
 * Whether null is to be sent for a field, or for a mapping that it is in.
 * @param {Element | null} field @returns {boolean}
 */
export function isLeftOut(field) {
  if (!field) return false;
  const tick = field.querySelector(":scope > label > input[data-null]");
  const above = field.parentElement?.closest("[data-param]") ?? null;
  return Boolean(/** @type {HTMLInputElement | null} */ (tick)?.checked) || isLeftOut(above);
}

/** The controls of a field itself, without those of its members. @param {Element} field */
export const controlsOf = (field) =>
  [...field.querySelectorAll("input:not([data-null]), select, textarea")]
    .filter((each) => each.closest("[data-param]") === field)
    .map((each) => /** @type {HTMLInputElement} */ (each));

/** @param {HTMLElement} field */
function readField(field) {
  const { type = "" } = field.dataset;
  const ticks = field.querySelector(".ticks");
  if (ticks) return readTicks(/** @type {HTMLElement} */ (ticks));
  return READERS[type](/** @type {HTMLInputElement} */ (field.querySelector("input, select, textarea")));
}

/**
 * From a control to its value; undefined: left as it is. Each throws a Wrong that says what to write.
 * @type {Record<string, (input: HTMLInputElement) => unknown>}
 */
const READERS = {
  int: readNumber,
  float: readNumber,
  bool: (input) => (input.checked === input.defaultChecked ? undefined : input.checked),
  str: readText,
  choice: readChoice,
  dotted_path: readText,
  names: readNames,
  mapping: readObject,
  bool_or_mapping: (input) => (/^(true|false)$/.test(input.value.trim()) ? input.value.trim() === "true" : readObject(input)),
};

/** @param {HTMLInputElement} input */
function readText(input) {
  return input.value.trim() || undefined;
}

/** @param {any} menu */
function readChoice(menu) {
  return menu.selectedOptions[0]?.hasAttribute("data-null") ? null : readText(menu);
}

/** @param {HTMLInputElement} input */
function readNames(input) {
  const names = input.value.split(",").map((each) => each.trim());
  return input.value.trim() ? names.filter(Boolean) : undefined;
}

/** @param {HTMLElement} ticks */
function readTicks(ticks) {
  const boxes = [...ticks.querySelectorAll("input")];
  if (boxes.every((each) => each.checked === each.defaultChecked)) return undefined;
  const chosen = boxes.filter((each) => each.checked).map((each) => each.value);
  if (!chosen.length) throw new Wrong("Tick at least one.");
  return chosen;
}

/** @param {HTMLInputElement} input */
function readNumber(input) {
  if (input.validity.badInput) throw new Wrong("Write a number.");
  if (input.value === "") return undefined;
  if (input.validity.stepMismatch) throw new Wrong("Write a whole number.");
  if (input.validity.rangeUnderflow) throw new Wrong(`Write ${input.min} or more.`);
  if (input.validity.rangeOverflow) throw new Wrong(`Write ${input.max} or less.`);
  return Number(input.value);
}

/** @param {HTMLInputElement} input */
function readObject(input) {
  const text = input.value.trim();
  if (!text) return undefined;
  const value = parse(text);
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new Wrong('Write a JSON object, such as {"C": 2.0}.');
  }
  return value;
}

/** @param {string} text */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch (wrong) {
    throw new Wrong(`This is no JSON; an object looks like {"C": 2.0}. ${/** @type {Error} */ (wrong).message}.`);
  }
}
