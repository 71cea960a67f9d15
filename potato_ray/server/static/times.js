// @ts-check
/** Times in the reader's own zone, with the UTC time as their title. */

/** @type {Intl.DateTimeFormatOptions} */
const THIS_YEAR = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
const SHOWN = new Intl.DateTimeFormat(undefined, THIS_YEAR);
const SHOWN_WITH_YEAR = new Intl.DateTimeFormat(undefined, { ...THIS_YEAR, year: "numeric" });

/** @param {ParentNode} root */
export function localTimes(root = document) {
  const year = new Date().getFullYear();
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    const utc = time.getAttribute("datetime") ?? "";
    const at = new Date(utc);
    time.setAttribute("title", utc);
    time.textContent = (at.getFullYear() === year ? SHOWN : SHOWN_WITH_YEAR).format(at);
  }
}
