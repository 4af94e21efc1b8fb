// Calls the service with the key of this tab.
//
// The key is in `sessionStorage` (this tab, until it is closed) or, where the browser blocks that, in memory (until the page is
// left). It goes to this server alone, in the `Authorization` header.

import { sentence, showWait } from "./dom.js";

const STORED = "backdrop.key";
/** Times that a request is repeated after 429. */
const PATIENCE = 8;

const storage = storageOfTab();
let key = storage?.getItem(STORED) ?? "";

/** Access itself throws where the browser blocks storage. */
function storageOfTab() {
  try {
    return sessionStorage;
  } catch {
    return null;
  }
}

/** The key, or an empty string. */
export const currentKey = () => key;

/** Keeps a key for this tab; an empty one is forgotten. Throws where the text can be no key. */
export function useKey(text) {
  const given = text.trim();
  authorization(given);
  key = given;
  if (key) storage?.setItem(STORED, key);
  else storage?.removeItem(STORED);
}

/** The header that sends a key. Throws where the text can be no key: `fetch` takes no other characters in a header, and reports them like an
 * unreachable server. */
export function authorization(text) {
  if (!/^[!-~]*$/.test(text)) throw new Refusal(0, { code: "invalid_key", message: "this is not an API key: it has characters that no key has" });
  return { authorization: `Bearer ${text}` };
}

/** A refusal of the service. */
class Refusal extends Error {
  constructor(status, error, retryAfter) {
    super(error.message);
    Object.assign(this, { status, code: error.code, param: error.param, reason: error.reason, retryAfter });
  }
}

/** Waits; rejects at once when it is aborted. */
export function wait(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); reject(new DOMException("aborted", "AbortError")); }, { once: true });
  });
}

/** A value for `Idempotency-Key`. `crypto.randomUUID` needs a secure context, which a plain address in a network is not. */
export function uniqueKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Repeats a request after each 429, when its `retry-after` is over. */
async function patiently(send, { signal, onwait = showWait, patience = PATIENCE }) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await send();
    } catch (refusal) {
      if (refusal.status !== 429 || attempt === patience || !refusal.retryAfter || refusal.retryAfter > 90) throw refusal;
      onwait(refusal.retryAfter);
      await wait(refusal.retryAfter * 1000, signal);
    }
  }
}

/** Sends a request. After 429 it is repeated, `patience` times at most; other refusals are thrown as `Refusal`. */
export function call(path, { method = "GET", body, json, signal, headers = {}, onwait, patience } = {}) {
  const sent = { ...(key && authorization(key)), ...headers };
  if (json !== undefined) sent["content-type"] = "application/json";
  return patiently(async () => {
    const reply = await fetch(path.replace(/^\//, ""), { method, headers: sent, body: json === undefined ? body : JSON.stringify(json), signal });
    if (!reply.ok) throw refusalFrom(reply.status, await reply.text(), reply.headers.get("retry-after"));
    return reply;
  }, { signal, onwait, patience });
}

/** The same, for a JSON answer. */
export const callJson = async (path, options) => (await call(path, options)).json();

function refusalFrom(status, text, retryAfter) {
  try {
    return new Refusal(status, JSON.parse(text).error, Number(retryAfter) || 0);
  } catch {
    return new Refusal(status, { code: "unreadable", message: `the server answered ${status}` }, 0);
  }
}

/** Uploads a form with progress, 0 to 1, for the answer as JSON. */
export function upload(path, form, { signal, onprogress, headers = {} }) {
  return patiently(() => new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path.replace(/^\//, ""));
    for (const [name, value] of Object.entries({ ...(key && authorization(key)), ...headers })) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => onprogress(event.loaded / event.total));
    request.addEventListener("load", () => {
      const { status, responseText } = request;
      if (status >= 200 && status < 300) resolve(JSON.parse(responseText));
      else reject(refusalFrom(status, responseText, request.getResponseHeader("retry-after")));
    });
    request.addEventListener("error", () => reject(new TypeError("the server cannot be reached")));
    request.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
    signal?.addEventListener("abort", () => request.abort(), { once: true });
    request.send(form);
  }), { signal });
}

/** A sentence about an error. */
export function explain(error) {
  if (error instanceof Refusal) {
    const where = { unauthorized: "Enter another key.", no_subject_detected: "Mark it with a box, points or the brush." }[error.code];
    return [sentence(error.message), where].filter(Boolean).join(" ");
  }
  if (error.name === "AbortError") return "Cancelled.";
  return "The server cannot be reached. Check that it still runs, then try again.";
}
