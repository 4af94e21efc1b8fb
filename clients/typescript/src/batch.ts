import type { RowDocument } from "./contract.js";
import { ApiError, BackdropError } from "./errors.js";
import type { Picture } from "./fields.js";
import { writeFile } from "./files.js";
import type { Box, ImageResult } from "./image.js";
import { nodeProcess } from "./node.js";
import { type Reply, jsonOf } from "./transport.js";
import { unzip } from "./zip.js";

/** One picture of `removeBatch` or `removeBatchUrl`. */
export class BatchRow {
  constructor(
    /** What the daemon says about it. */
    readonly document: RowDocument,
    /** The file; undefined for a picture that failed. */
    readonly bytes: Uint8Array<ArrayBuffer> | undefined,
  ) {}

  /** Position in the request, from 0. */
  get index(): number {
    return this.document.index;
  }

  /** The subject in the result. */
  get box(): Box | undefined {
    return this.document.box;
  }

  /** Why the picture failed; undefined where it did not. */
  get error(): ApiError | undefined {
    return this.document.error && new ApiError(this.document.status, this.document.error);
  }

  /** Writes the file (in Node); throws `error` for a picture that failed. */
  async save(path: string): Promise<void> {
    if (!this.bytes) throw this.error ?? new BackdropError("the row has no picture");
    await writeFile(path, this.bytes);
  }
}

/** What a batch answers: an archive, or JSON where nothing could be fetched. */
export const BATCH_ACCEPT = "application/zip, application/json;q=0.5";

/** The rows of a batch's reply, in the order of the request. */
export function rowsOf(reply: Reply): BatchRow[] {
  if (!reply.headers.get("content-type")?.startsWith("application/zip")) {
    return jsonOf<{ results: RowDocument[] }>(reply).results.map((row) => new BatchRow(row, undefined));
  }
  const files = unzip(reply.bytes);
  const listed = files.get("results.json");
  if (!listed) throw new BackdropError("the archive has no results.json");
  const { results } = JSON.parse(new TextDecoder().decode(listed)) as { results: RowDocument[] };
  return results.map((row) => new BatchRow(row, row.file === undefined ? undefined : files.get(row.file)));
}

/** One picture of `batch`: either `image` or `error`. */
export interface Outcome<P extends Picture = Picture> {
  /** Position in the input, from 0. */
  index: number;
  /** The input. */
  picture: P;
  image?: ImageResult;
  error?: Error;
}

/** How far a batch is. */
export interface Progress {
  done: number;
  failed: number;
  /** Undefined where the input has no length. */
  total: number | undefined;
}

/** Options of `batch`. */
export interface BatchOptions<P extends Picture> {
  /** What is done with each picture; `remove` by default. It must pass `signal` on. */
  operation?: (picture: P, options: { signal: AbortSignal }) => Promise<ImageResult>;
  /** Pictures at a time; 4 by default. */
  concurrency?: number;
  /** Called after each picture; `terminalProgress()` draws a bar. */
  onProgress?: (progress: Progress) => void;
  /** Cancels the batch. */
  signal?: AbortSignal;
}

/** Runs `operation` on each picture, a number at a time, and yields each as it is finished; leaving the loop cancels the rest. */
export async function* batch<P extends Picture>(
  pictures: Iterable<P>,
  operation: NonNullable<BatchOptions<P>["operation"]>,
  { concurrency = 4, onProgress, signal }: BatchOptions<P>,
): AsyncGenerator<Outcome<P>, void, undefined> {
  const stop = new AbortController();
  const both = signal ? AbortSignal.any([stop.signal, signal]) : stop.signal;
  const total = Array.isArray(pictures) ? pictures.length : pictures instanceof Set ? pictures.size : undefined;
  const source = pictures[Symbol.iterator]();
  const running = new Map<number, Promise<Outcome<P>>>();
  const progress: Progress = { done: 0, failed: 0, total };
  const one = async (index: number, picture: P): Promise<Outcome<P>> => {
    try {
      return { index, picture, image: await operation(picture, { signal: both }) };
    } catch (error) {
      return { index, picture, error: error as Error };
    }
  };
  try {
    for (let index = 0; ; ) {
      while (running.size < Math.max(1, concurrency)) {
        const next = source.next();
        if (next.done) break;
        running.set(index, one(index, next.value));
        index += 1;
      }
      if (running.size === 0) return;
      const outcome = await Promise.race(running.values());
      signal?.throwIfAborted();
      running.delete(outcome.index);
      progress.done += 1;
      if (outcome.error) progress.failed += 1;
      onProgress?.({ ...progress });
      yield outcome;
    }
  } finally {
    stop.abort();
    source.return?.();
  }
}

/** Draws a bar on standard error (in Node): for `onProgress`. */
export function terminalProgress(): (progress: Progress) => void {
  const stderr = nodeProcess?.stderr;
  const began = Date.now();
  return ({ done, failed, total }) => {
    const share = total ? done / total : 0;
    const bar = total ? `[${"#".repeat(Math.round(24 * share)).padEnd(24)}] ` : "";
    const rate = ((done * 1000) / Math.max(1, Date.now() - began)).toFixed(1);
    const line = `${bar}${done}${total === undefined ? "" : `/${total}`}, ${failed} failed, ${rate}/s`;
    if (stderr?.isTTY) stderr.write(`\r${line}${done === total ? "\n" : ""}`);
    else if (done === total || done % 100 === 0) stderr?.write(`${line}\n`);
  };
}
