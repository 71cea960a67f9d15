// @ts-check
/** Curves of the metrics that a run reports step by step, drawn as SVG. */

import { piece } from "./pieces.js";
import { number } from "./wording.js";

const NS = "http://www.w3.org/2000/svg";
const WIDTH = 320;
const HEIGHT = 190;
const LEFT = 46;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 38;
const MOST_POINTS = 1_000;

/** @typedef {{points: [number, number][], first: number, last: number, least: number, most: number, n: number, every: number}} Curve */

export class Curves {
  constructor() {
    /** @type {Map<string, Curve>} */
    this.curves = new Map();
  }

  /** Take a metric event; what has no step is no part of a curve. @param {any} event */
  add({ name, value, step }) {
    if (typeof step !== "number" || typeof value !== "number") return;
    const curve = this.curves.get(name) ?? { points: [], first: value, last: value, least: value, most: value, n: 0, every: 1 };
    this.curves.set(name, curve);
    curve.last = value;
    curve.least = Math.min(curve.least, value);
    curve.most = Math.max(curve.most, value);
    if (curve.n % curve.every === 0) curve.points.push([step, value]);
    curve.n += 1;
    if (curve.points.length > MOST_POINTS) thin(curve);
  }

  /** A metric that was told at two steps or more makes a curve. */
  drawable() {
    return [...this.curves].filter(([, { points }]) => new Set(points.map(([step]) => step)).size > 1);
  }

  /** @param {HTMLElement} place @returns {boolean} whether there is anything to see */
  draw(place) {
    const drawn = this.drawable().map(([name, curve]) => figure(name, curve));
    place.replaceChildren(...drawn);
    return drawn.length > 0;
  }
}

/** Keep every second point. @param {Curve} curve */
function thin(curve) {
  curve.points = curve.points.filter((_, at) => at % 2 === 0);
  curve.every *= 2;
}

/** @param {string} name @param {Curve} curve */
function figure(name, curve) {
  const words = `${number(curve.n)} steps, from ${number(curve.first)} to ${number(curve.last)}, least ${number(curve.least)}, most ${number(curve.most)}`;
  const caption = piece("figcaption", {}, name);
  const svg = drawing(curve);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Curve of ${name}: ${words}`);
  return piece("figure", { class: "curve" }, caption, svg, piece("p", { class: "soft small figures" }, words));
}

/** @param {Curve} curve */
function drawing({ points: shown }) {
  const x = axis(shown.map(([step]) => step), LEFT, WIDTH - RIGHT, 5, true);
  const y = axis(shown.map(([, value]) => value), HEIGHT - BOTTOM, TOP, 4, false);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, focusable: "false" });
  for (const tick of y.ticks) {
    svg.append(draw("path", { class: "grid", d: `M${LEFT} ${y.at(tick)}H${WIDTH - RIGHT}` }));
    svg.append(words(LEFT - 6, y.at(tick) + 4, tickText(tick, y.step), "end"));
  }
  for (const tick of x.ticks) {
    svg.append(draw("path", { class: "axis", d: `M${x.at(tick)} ${HEIGHT - BOTTOM}v4` }));
    svg.append(words(x.at(tick), HEIGHT - BOTTOM + 16, tickText(tick, x.step), "middle"));
  }
  svg.append(draw("path", { class: "axis", d: `M${LEFT} ${HEIGHT - BOTTOM}H${WIDTH - RIGHT}` }));
  svg.append(words((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "step", "middle"));
  svg.append(draw("path", { class: "line", d: `M${shown.map(([step, value]) => `${round(x.at(step))} ${round(y.at(value))}`).join("L")}` }));
  const [step, value] = shown[shown.length - 1];
  svg.append(draw("circle", { class: "last", cx: round(x.at(step)), cy: round(y.at(value)), r: 3 }));
  return svg;
}

/**
 * An axis with ticks at numbers that people like.
 * @param {number[]} values @param {number} start @param {number} end @param {number} most @param {boolean} whole
 */
function axis(values, start, end, most, whole) {
  let low = Math.min(...values);
  let high = Math.max(...values);
  if (high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high), 1e-90)) {
    const pad = 0.1 * Math.abs(low) || 1;
    [low, high] = [low - pad, high + pad];
  }
  const step = niceStep((high - low) / most, whole);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  const ticks = Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
  const [from, to] = [ticks[0], ticks[ticks.length - 1]];
  return { ticks, step, at: (/** @type {number} */ value) => round(start + ((end - start) * (value - from)) / (to - from)) };
}

/** @param {number} least @param {boolean} whole */
function niceStep(least, whole) {
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least * (1 - 1e-9)) ?? 10 * power;
  return whole ? Math.max(1, step) : step;
}

/** @param {number} value @param {number} step */
function tickText(value, step) {
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return decimals > 5 || Math.abs(value) >= 1e6 ? String(Number(value.toPrecision(3))) : (value + 0).toFixed(decimals);
}

/** @param {number} value */
const round = (value) => Math.round(value * 10) / 10;

/** @param {string} tag @param {Record<string, string | number>} attributes */
function draw(tag, attributes) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}

/** @param {number} x @param {number} y @param {string} said @param {string} anchor */
function words(x, y, said, anchor) {
  const made = draw("text", { x: round(x), y: round(y), "text-anchor": anchor });
  made.textContent = said;
  return made;
}
