// Requests and retries.

import { CONTRACT_VERSION, type ErrorDocument, OPERATIONS, type Operation } from "./contract.js";
import { ApiError, BackdropError, ConnectionFailedError, TimedOutError } from "./errors.js";
import { variable } from "./files.js";
import { nodeProcess } from "./node.js";

/** Options of a client. */
export interface ClientOptions {
  /** The API key; else `BACKDROP_KEY`. */
  key?: string | undefined;
  /** Address of the daemon; else `BACKDROP_URL`, else http://127.0.0.1:8080. */
  url?: string | undefined;
  /**
   * Limit of each attempt in milliseconds, in addition to the time that its files take at 64 kB/s; of a download, of the pause
   * between two pieces. 120,000 by default, for clips at least 900,000.
   */
  timeoutMs?: number | undefined;
  /** How often a call is repeated; 4 by default. */
  retries?: number | undefined;
  /** Milliseconds that a call may spend on pauses between attempts; 120,000 by default. */
  maxWaitMs?: number | undefined;
  /** Replaces the global `fetch`, for proxies or certificates. */
  fetch?: typeof fetch | undefined;
}

/** What a call sends. */
export interface Parts {
  path?: Record<string, string>;
  query?: Record<string, string | undefined>;
  headers?: Record<string, string>;
  body?: FormData | string;
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Whether it may be sent again although it may have been carried out. */
  isRepeatable?: boolean;
}

/** A reply, read to its end. */
export interface Reply {
  status: number;
  headers: Headers;
  bytes: Uint8Array<ArrayBuffer>;
}

const RETRIED = [408, 429, 500, 502, 503, 504];
// Refused before anything was done, so that a repetition does nothing twice.
const NOT_BEGUN = [429, 503];
// Node's codes of connections that were never made.
const UNSENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];
// The daemon's own minimum, `server.min_upload_kilobytes_per_second`.
const UPLOAD_BYTES_PER_MS = 64;
const BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 8000;

/** The JSON of a reply. */
export function jsonOf<T>(reply: Reply): T {
  const text = new TextDecoder().decode(reply.bytes);
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new BackdropError(`the reply is not JSON: ${text.slice(0, 80)}`);
  }
}

/** Seconds of `Retry-After`, which is a number or a date. */
export function retryAfterOf(headers: Headers): number | undefined {
  const text = headers.get("retry-after");
  if (text === null) return undefined;
  const seconds = /^\d+(\.\d+)?$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

function refusalOf(reply: Reply): ApiError {
  let requestId = reply.headers.get("x-request-id") ?? undefined;
  let error = { code: `http_${reply.status}`, message: "no reason was given" };
  try {
    const document = JSON.parse(new TextDecoder().decode(reply.bytes)) as Partial<ErrorDocument>;
    if (typeof document.error?.code === "string" && typeof document.error.message === "string") {
      error = document.error;
      requestId = document.request_id ?? requestId;
    }
  } catch {
    // Not the daemon's own reply.
  }
  return new ApiError(reply.status, error, requestId, retryAfterOf(reply.headers));
}

/** Whether a 424 is a batch in which no picture could be fetched, with the error of each. */
function hasRows(reply: Reply): boolean {
  return reply.status === 424 && new TextDecoder().decode(reply.bytes).includes('"results"');
}

/** A pause that ends with `signal`. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const cancelled = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", cancelled);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", cancelled, { once: true });
  });
}

/** A signal that `limit` ends, or the caller's. */
export function either(limit: AbortSignal, signal: AbortSignal | undefined): AbortSignal {
  return signal ? AbortSignal.any([limit, signal]) : limit;
}

/** The time that the files of `body` may take. */
function uploadMs(body: FormData | string | undefined): number {
  if (!(body instanceof FormData)) return 0;
  let bytes = 0;
  for (const part of body.values()) if (typeof part !== "string") bytes += part.size;
  return Math.ceil(bytes / UPLOAD_BYTES_PER_MS);
}

function codeOf(error: unknown): string | undefined {
  const cause = (error as { cause?: { code?: unknown } } | undefined)?.cause;
  return typeof cause?.code === "string" ? cause.code : undefined;
}

/** Sends requests to one daemon. */
export class Transport {
  readonly #key: string;
  readonly url: string;
  readonly timeoutMs: number;
  readonly #retries: number;
  readonly #maxWaitMs: number;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions) {
    const key = options.key ?? variable("BACKDROP_KEY");
    if (!key) throw new TypeError("there is no API key: pass `key`, or set BACKDROP_KEY");
    this.#key = key;
    this.url = (options.url ?? variable("BACKDROP_URL") ?? "http://127.0.0.1:8080").replace(/\/+$/, "");
    this.timeoutMs = options.timeoutMs ?? 120_000;
    this.#retries = options.retries ?? 4;
    this.#maxWaitMs = options.maxWaitMs ?? 120_000;
    // Browsers want `fetch` called without another `this`.
    this.#fetch = options.fetch ?? ((...call) => fetch(...call));
  }

  /**
   * Sends a request until it succeeds, fails with an error that is not retried, or reaches a limit. A 429 with
   * `Retry-After` counts against `maxWaitMs` alone, all others against `retries` too.
   */
  async call(operation: Operation, parts: Parts = {}): Promise<Reply> {
    const [method, , takesKey] = OPERATIONS[operation];
    const isRepeatable = parts.isRepeatable === true || takesKey || method === "GET";
    let attempts = 0;
    let waited = 0;
    for (;;) {
      let failure: BackdropError;
      let isWorthwhile: boolean;
      let retryAfterMs: number | undefined;
      try {
        const reply = await this.#send(operation, parts);
        if ((reply.status >= 200 && reply.status < 300) || hasRows(reply)) return reply;
        const refusal = refusalOf(reply);
        failure = refusal;
        retryAfterMs = refusal.retryAfter === undefined ? undefined : refusal.retryAfter * 1000;
        isWorthwhile = RETRIED.includes(reply.status) && (isRepeatable || NOT_BEGUN.includes(reply.status));
      } catch (error) {
        parts.signal?.throwIfAborted();
        failure = this.#lost(error);
        isWorthwhile = isRepeatable || UNSENT.includes(codeOf(error) ?? "");
      }
      const isPaced = failure instanceof ApiError && failure.status === 429 && retryAfterMs !== undefined;
      if (!isWorthwhile || (attempts >= this.#retries && !isPaced)) throw failure;
      const wait = Math.max(retryAfterMs ?? 0, this.#backoff(isPaced ? 0 : attempts));
      if (waited + wait > this.#maxWaitMs) throw failure;
      if (!isPaced) attempts += 1;
      waited += wait;
      await pause(wait, parts.signal);
    }
  }

  /** The body of a job's result, piece by piece; it needs no key. After a lost connection the rest is asked for. */
  async *pieces(address: string, signal?: AbortSignal): AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> {
    const url = new URL(address, `${this.url}/`);
    let [attempts, received] = [0, 0];
    let etag: string | null = null;
    for (;;) {
      const before = received;
      let failure: BackdropError;
      const idle = new AbortController();
      const expire = () => idle.abort(new DOMException("no data in time", "TimeoutError"));
      let timer = setTimeout(expire, this.timeoutMs);
      try {
        const headers = received > 0 && etag !== null ? { range: `bytes=${received}-`, "if-range": etag } : {};
        const reply = await this.#fetch(url, { headers, signal: either(idle.signal, signal), redirect: "error" });
        if (reply.ok) {
          const isRest = reply.status === 206 && reply.headers.get("content-range")?.startsWith(`bytes ${received}-`) === true;
          if (received > 0 && !isRest) throw new BackdropError("the result was lost on the way and cannot be continued; download it again");
          etag = reply.headers.get("etag");
          const reader = reply.body?.getReader();
          for (let piece = await reader?.read(); piece?.value; piece = await reader?.read()) {
            clearTimeout(timer);
            received += piece.value.length;
            yield piece.value;
            timer = setTimeout(expire, this.timeoutMs);
          }
          return;
        }
        const refusal = refusalOf({ status: reply.status, headers: reply.headers, bytes: new Uint8Array(await reply.arrayBuffer()) });
        if (!RETRIED.includes(refusal.status)) throw refusal;
        failure = refusal;
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof BackdropError) throw error;
        failure = this.#lost(error);
      } finally {
        clearTimeout(timer);
        idle.abort();
      }
      // Attempts are counted anew wherever some of the file came.
      attempts = received > before ? 0 : attempts + 1;
      if (attempts > this.#retries) throw failure;
      await pause(this.#backoff(attempts), signal);
    }
  }

  async #send(operation: Operation, parts: Parts): Promise<Reply> {
    const [method, path] = OPERATIONS[operation];
    const url = new URL(this.url + path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parts.path?.[name] ?? "")));
    for (const [name, value] of Object.entries(parts.query ?? {})) if (value !== undefined) url.searchParams.set(name, value);
    const headers: Record<string, string> = { authorization: `Bearer ${this.#key}`, ...parts.headers };
    if (nodeProcess) headers["user-agent"] = `backdrop-typescript/${CONTRACT_VERSION}`;
    if (typeof parts.body === "string") headers["content-type"] = "application/json";
    const limitMs = (parts.timeoutMs ?? this.timeoutMs) + uploadMs(parts.body);
    const signal = either(AbortSignal.timeout(limitMs), parts.signal);
    const init: RequestInit = { method, headers, signal, redirect: "error" };
    if (parts.body !== undefined) init.body = parts.body;
    const reply = await this.#fetch(url, init);
    return { status: reply.status, headers: reply.headers, bytes: new Uint8Array(await reply.arrayBuffer()) };
  }

  #lost(error: unknown): ConnectionFailedError {
    const { name, message } = error as Error;
    const code = codeOf(error);
    const Kind = name === "TimeoutError" ? TimedOutError : ConnectionFailedError;
    return new Kind(code ? `${message} (${code})` : message, { cause: error });
  }

  #backoff(attempts: number): number {
    return Math.min(MAX_BACKOFF_MS, BACKOFF_MS * 2 ** attempts) * (0.5 + Math.random() / 2);
  }
}
