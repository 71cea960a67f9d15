// @ts-check
/** Times in the reader's own zone, with the UTC time as their title. */

/** @type {Intl.DateTimeFormatOptions} */
const THIS_YEAR = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
/** Beside a log in UTC a time says its zone. @type {Intl.DateTimeFormatOptions} */
const EXACT = { second: "2-digit", timeZoneName: "short" };

/** @param {ParentNode} root */
export function localTimes(root = document) {
  const year = new Date().getFullYear();
  for (const time of /** @type {NodeListOf<HTMLTimeElement>} */ (root.querySelectorAll("time[datetime]:not([title])"))) {
    const at = new Date(time.dateTime);
    time.title = time.dateTime;
    time.textContent = written(at, {
      ...THIS_YEAR,
      ...(at.getFullYear() === year ? {} : { year: "numeric" }),
      ...("exact" in time.dataset ? EXACT : {}),
    });
  }
}

/** A time whose AM or PM stays in its line. @param {Date} at @param {Intl.DateTimeFormatOptions} form */
function written(at, form) {
  const parts = new Intl.DateTimeFormat(undefined, form).formatToParts(at);
  return parts
    .map(({ value }, place) => (parts[place + 1]?.type === "dayPeriod" ? value.replace(/ $/, "\u00a0") : value))
    .join("");
}
