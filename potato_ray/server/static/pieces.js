// @ts-check
/** Pieces of a page, made of text and never of markup. */

/**
 * @param {string} tag @param {Record<string, string>} [attributes] @param {(Node | string)[]} inside
 * @returns {HTMLElement}
 */
export function piece(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

/**
 * A notice: what happened, then the evidence and the next step.
 * @param {string} level error, warning, busy or good
 * @param {string} title @param {(Node | string | undefined)[]} rest
 */
export function notice(level, title, ...rest) {
  const lines = rest.filter((each) => each).map((each) => piece("span", {}, /** @type {Node | string} */ (each)));
  return piece("div", { class: `notice ${level}` }, piece("strong", {}, title), ...lines);
}

/** @param {import("./api.js").Problem} problem */
export function problemNotice(problem) {
  return notice("error", problem.error, problem.evidence, problem.next_step);
}

/** Set a text where it differs, so that nothing is announced or redrawn for no reason.
 *  @param {Element | null} element @param {string} text */
export function say(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}
