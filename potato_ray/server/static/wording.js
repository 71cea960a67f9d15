// @ts-check
/** Numbers and times as people read them; the server's pages write them in the same way. */

/** @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  return longer(Math.round(seconds));
}

/** @param {number} whole */
function longer(whole) {
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${two(whole % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${two(minutes % 60)} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** @param {number} value */
const two = (value) => String(value).padStart(2, "0");

/** How far a step is. @param {{total: number, current: number, eta_s: number | null}} run */
export function progressWords({ total, current, eta_s }) {
  const left = eta_s === null ? "" : `, about ${duration(eta_s)} left`;
  return `${number(current)} of ${number(total)}${left}`;
}

/** @param {number} bytes */
export function fileSize(bytes) {
  if (bytes < 1024) return bytes === 1 ? "1 Byte" : `${bytes} Bytes`;
  const power = Math.min(Math.floor(Math.log2(bytes) / 10), 5);
  return `${(bytes / 1024 ** power).toFixed(1)} ${["KiB", "MiB", "GiB", "TiB", "PiB"][power - 1]}`;
}

/** @param {unknown} value */
export function number(value) {
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  return size >= 0.001 && size < 1000 ? value.toFixed(3) : String(Number(value.toPrecision(4)));
}
