// @ts-check
/** Buttons that ask first: one press asks, a second one within a few seconds does it. */

const SURE_MS = 6_000;

/**
 * What a button asks and does. `act` answers whether it was done: then the button stays as it is until
 * what it belongs to is drawn anew.
 * @typedef {{asking: string, doing: string, onAsk: () => void, act: (button: HTMLButtonElement) => Promise<boolean>}} Deed
 */

/** What each button that asks said before, and the timer that lets it say so again.
 *  @type {WeakMap<HTMLButtonElement, {calm: string | null, timer: ReturnType<typeof setTimeout>}>} */
const asking = new WeakMap();

/**
 * Make buttons ask, those too that come later.
 * @param {HTMLElement} place where they are, or the button itself
 * @param {string} selector of the buttons
 * @param {Deed} deed
 */
export function sureButtons(place, selector, deed) {
  /** @param {Event} event */
  const buttonOf = ({ target }) =>
    target instanceof Element ? /** @type {HTMLButtonElement | null} */ (target.closest(selector)) : null;
  place.addEventListener("click", (event) => {
    const button = buttonOf(event);
    if (!button || button.getAttribute("aria-disabled") === "true") return;
    if (asking.has(button)) void act(button, deed);
    else ask(button, deed);
  });
  place.addEventListener("keydown", (event) => {
    const button = buttonOf(event);
    if (button && event.key === "Escape") calm(button);
  });
  place.addEventListener("focusout", (event) => {
    const button = buttonOf(event);
    if (button) calm(button);
  });
}

/** @param {HTMLButtonElement} button @param {Deed} deed */
function ask(button, deed) {
  asking.set(button, { calm: button.textContent, timer: setTimeout(() => calm(button), SURE_MS) });
  button.classList.add("sure");
  button.textContent = deed.asking;
  deed.onAsk();
}

/** @param {HTMLButtonElement} button */
function calm(button) {
  const before = asking.get(button);
  if (!before) return;
  clearTimeout(before.timer);
  asking.delete(button);
  button.classList.remove("sure");
  button.textContent = before.calm;
}

/** @param {HTMLButtonElement} button @param {Deed} deed */
async function act(button, deed) {
  calm(button);
  const before = button.textContent;
  button.classList.add("sure");
  button.setAttribute("aria-disabled", "true");
  button.textContent = deed.doing;
  if (await deed.act(button)) return;
  button.removeAttribute("aria-disabled");
  button.classList.remove("sure");
  button.textContent = before;
}
