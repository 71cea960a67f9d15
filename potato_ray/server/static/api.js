// @ts-check
/** Calls of the server's own API. */

const BASE = "/admin/training/api";
const TIMEOUT_MS = 120_000;

/** @typedef {{error: string, error_code: string, evidence?: string, next_step?: string}} Problem */

/** The server did not answer, or its answer broke off. */
class Unreachable extends Error {}

/** The server refused, and said why. */
export class Refused extends Error {
  /** @param {number} status @param {Problem} problem */
  constructor(status, problem) {
    super(problem.error);
    this.status = status;
    this.problem = problem;
  }
}

/**
 * The JSON that the server answers. Throws Unreachable or Refused.
 * @param {string} path below the API
 * @param {{method?: string, body?: unknown, headers?: Record<string, string>, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function call(path, { method = "GET", body, headers = {}, signal } = {}) {
  const answer = await reach(BASE + path, {
    method,
    headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: signal ?? AbortSignal.timeout(TIMEOUT_MS),
    cache: "no-store",
  });
  const said = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, typeof said?.error === "string" ? said : wordless(answer));
  if (said === null) throw new Unreachable("The answer of the server broke off.");
  return said;
}

/** @param {string} path @param {RequestInit} init */
async function reach(path, init) {
  try {
    return await fetch(path, init);
  } catch {
    throw new Unreachable("The server does not answer.");
  }
}

/** @param {Response} answer @returns {Problem} */
function wordless(answer) {
  return { error: `The server answered ${answer.status} ${answer.statusText}.`, error_code: "refused" };
}

/**
 * What went wrong, for people.
 * @param {unknown} error @returns {Problem}
 */
export function problemOf(error) {
  if (error instanceof Refused && error.status === 401) {
    return { ...error.problem, error: "You are logged out.", next_step: "Load this page again to log in." };
  }
  if (error instanceof Refused) return error.problem;
  if (error instanceof Unreachable) {
    return { error: error.message, error_code: "unreachable", next_step: "Try again in a while." };
  }
  return {
    error: "This page met an error of its own.",
    error_code: "page_failed",
    evidence: String(error),
    next_step: "Load it again; if it happens again, report it with this text.",
  };
}
