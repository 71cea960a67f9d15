// @ts-check
/** Times in the reader's own zone, with the UTC time as their title. */

const SHOWN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** @param {ParentNode} root */
export function localTimes(root = document) {
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    const utc = time.getAttribute("datetime") ?? "";
    time.setAttribute("title", utc);
    time.textContent = SHOWN.format(new Date(utc));
  }
}
