// @ts-check
/** The agents on the Training page: taken anew from the server every few seconds while somebody looks. */

const EVERY_MS = 15_000;

/** @param {string} backend */
const viewOf = (backend) =>
  /** @type {HTMLElement | null} */ (document.querySelector(`[data-agents-of="${CSS.escape(backend)}"]`));

/** What starts an agent of a backend; "" where there is no such agent backend. @param {string} backend */
export const startCommand = (backend) => viewOf(backend)?.dataset.start ?? "";

let taking = false;
let again = false;

/** Show the agents as they are now. */
export async function takeAgents() {
  if (document.hidden || !document.getElementById("agents")) return;
  again = taking;
  if (taking) return;
  taking = true;
  try {
    await take();
  } catch {
    // The page says elsewhere that the server cannot be reached; the next round tries again.
  } finally {
    taking = false;
  }
  if (again) await takeAgents();
}

async function take() {
  const answer = await fetch(`${location.pathname}?limit=1`, { cache: "no-store" });
  if (answer.ok) swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
}

/** @param {Document} fresh */
function swap(fresh) {
  for (const view of /** @type {NodeListOf<HTMLElement>} */ (fresh.querySelectorAll("[data-agents-of]"))) {
    const old = viewOf(view.dataset.agentsOf ?? "");
    if (old) takeOver(old, view);
  }
  for (const line of /** @type {NodeListOf<HTMLElement>} */ (fresh.querySelectorAll("[data-agents]"))) {
    const old = document.querySelector(`[data-agents="${CSS.escape(line.dataset.agents ?? "")}"]`);
    if (old && !isInUse(old) && old.innerHTML !== line.innerHTML) old.replaceChildren(...line.childNodes);
  }
}

/** Piece by piece: one that somebody uses stays, and what is folded stays as the reader has left it.
 *  @param {HTMLElement} old @param {HTMLElement} view */
function takeOver(old, view) {
  const [before, after] = [old.querySelector("details"), view.querySelector("details")];
  if (before && after && old.dataset.touched) after.open = before.open;
  for (const piece of /** @type {NodeListOf<HTMLElement>} */ (view.querySelectorAll("[data-piece]"))) {
    const place = old.querySelector(`[data-piece="${piece.dataset.piece}"]`);
    if (place && !isInUse(place) && place.innerHTML !== piece.innerHTML) place.replaceChildren(...piece.childNodes);
  }
}

/** Somebody stands in it, or is copying from it. @param {Element} place */
function isInUse(place) {
  const chosen = document.getSelection();
  const copying = chosen && !chosen.isCollapsed && chosen.anchorNode && place.contains(chosen.anchorNode);
  return Boolean(copying) || place.contains(document.activeElement);
}

export function followAgents() {
  document.getElementById("agents")?.addEventListener("click", ({ target }) => {
    const summary = /** @type {Element} */ (target).closest("summary");
    const view = /** @type {HTMLElement | null | undefined} */ (summary?.closest("[data-agents-of]"));
    if (view) view.dataset.touched = "yes";
  });
  window.setInterval(() => void takeAgents(), EVERY_MS);
  document.addEventListener("visibilitychange", () => void takeAgents());
}
