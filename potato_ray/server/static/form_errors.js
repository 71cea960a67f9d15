// @ts-check
/** What is wrong with a field, said at the field. */

import { piece } from "./pieces.js";

const CONTROLS = "input, select, textarea";

/** @param {HTMLElement} field @param {string} text */
export function showError(field, text) {
  const control = field.querySelector(CONTROLS);
  if (!control) return;
  const id = `${control.id}--error`;
  document.getElementById(id)?.remove();
  field.append(piece("p", { class: "field-error", id }, text));
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", `${id} ${describedBy(control)}`.trim());
}

/** @param {Element} control */
const describedBy = (control) =>
  (control.getAttribute("aria-describedby") ?? "")
    .split(" ")
    .filter((id) => id && !id.endsWith("--error"))
    .join(" ");

/** @param {HTMLElement} form */
export function clearErrors(form) {
  form.querySelector("#start-problem")?.replaceChildren();
  for (const control of form.querySelectorAll('[aria-invalid="true"]')) clearError(control);
}

/**
 * Somebody changes a field: what was wrong with it is no more known.
 * @param {Element} changed a control, of those of ticks any
 */
export function clearErrorAt(changed) {
  const field = changed.closest(".field");
  const wrong = field?.querySelector('[aria-invalid="true"]');
  if (wrong && wrong.closest(".field") === field) clearError(wrong);
}

/** @param {Element} control */
function clearError(control) {
  document.getElementById(`${control.id}--error`)?.remove();
  control.removeAttribute("aria-invalid");
  const rest = describedBy(control);
  if (rest) control.setAttribute("aria-describedby", rest);
  else control.removeAttribute("aria-describedby");
}

/** Go to the first field that is wrong, unfolding what hides it. @param {HTMLElement} form */
export function showFirst(form) {
  const first = /** @type {HTMLElement | null} */ (form.querySelector('[aria-invalid="true"]'));
  for (let fold = first?.closest("details"); fold; fold = fold.parentElement?.closest("details")) fold.open = true;
  first?.focus();
}
