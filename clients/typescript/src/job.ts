import type { JobDocument, JobDocumentBulk } from "./contract.js";
import { BackdropError, JobFailedError, WaitTimeoutError } from "./errors.js";
import { writePieces } from "./files.js";
import { type Transport, either, jsonOf, pause, retryAfterOf } from "./transport.js";

const POLL_MS = 2000;

/** A clip or a bulk run that is processed, or was: its state when it was last asked for. */
export class Job {
  readonly #transport: Transport;

  constructor(
    transport: Transport,
    /** What the daemon says about it. */
    public document: JobDocument,
  ) {
    this.#transport = transport;
  }

  get id(): string {
    return this.document.job_id;
  }

  get status(): JobDocument["status"] {
    return this.document.status;
  }

  /** Percent. */
  get progress(): number {
    return this.document.progress;
  }

  /** Places, counts, expected end and summary of a bulk run; undefined of a clip. */
  get bulk(): JobDocumentBulk | undefined {
    return this.document.bulk;
  }

  /** Address of a clip's result, readable without a key for an hour; undefined before it is done and after that. */
  get resultUrl(): string | undefined {
    return this.document.result_url;
  }

  /** The billed duration; undefined before the job is done. */
  get outputSeconds(): number | undefined {
    return this.document.output_seconds;
  }

  /** A sentence each. */
  get warnings(): string[] {
    return this.document.warnings ?? [];
  }

  /** Why the job failed; undefined where it did not. */
  get error(): JobFailedError | undefined {
    return this.status === "error" ? new JobFailedError(this.document) : undefined;
  }

  /** Asks for its state. */
  async refresh(signal?: AbortSignal): Promise<this> {
    await this.#poll(signal);
    return this;
  }

  /** Polls until it is done; throws `JobFailedError` where it fails and `WaitTimeoutError` where it is not over in time. */
  async wait(
    options: {
      /** Milliseconds; without it there is no limit. */
      timeoutMs?: number;
      /** Receives percents. */
      onProgress?: (percent: number) => void;
      /** Ends the wait, not the job. */
      signal?: AbortSignal;
    } = {},
  ): Promise<this> {
    const until = Date.now() + (options.timeoutMs ?? Infinity);
    for (;;) {
      const wait = await this.#poll(options.signal);
      options.onProgress?.(this.progress);
      if (this.status === "done") return this;
      if (this.error) throw this.error;
      if (Date.now() + wait > until) throw new WaitTimeoutError(`job ${this.id} is ${this.status} after ${options.timeoutMs} ms`);
      await pause(wait, options.signal);
    }
  }

  /** Pauses a bulk run: pictures in progress are finished, and no others are started. */
  pause(): Promise<this> {
    return this.#change("paused");
  }

  /** Resumes a paused bulk run. */
  resume(): Promise<this> {
    return this.#change("running");
  }

  /** Cancels it; where it is over, deletes it with its result. The results and the report of a bulk run are kept. */
  async delete(): Promise<void> {
    await this.#transport.call("deleteJob", { path: { job_id: this.id } });
  }

  /** Downloads the result of a clip to a file, piece by piece (in Node). */
  async save(path: string, signal?: AbortSignal): Promise<void> {
    await writePieces(path, this.#transport.pieces(this.#result(), signal));
  }

  /** The result of a clip as it arrives. */
  stream(signal?: AbortSignal): ReadableStream<Uint8Array<ArrayBuffer>> {
    const cancelled = new AbortController();
    const pieces = this.#transport.pieces(this.#result(), either(cancelled.signal, signal));
    return new ReadableStream({
      async pull(controller) {
        const { done, value } = await pieces.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        // A generator returns only after the piece that it waits for.
        cancelled.abort();
        await pieces.return().catch(() => undefined);
      },
    });
  }

  async #change(state: "paused" | "running"): Promise<this> {
    // The state is set, not toggled.
    const parts = { path: { job_id: this.id }, body: JSON.stringify({ state }), isRepeatable: true };
    this.document = jsonOf<JobDocument>(await this.#transport.call("changeJob", parts));
    return this;
  }

  #result(): string {
    if (this.bulk) throw new BackdropError(`job ${this.id} is a bulk run: its results are in ${this.bulk.to}`);
    if (this.resultUrl !== undefined) return this.resultUrl;
    throw new BackdropError(`job ${this.id} has no result: it is ${this.document.result_expired ? "expired" : this.status}`);
  }

  /** Milliseconds until the next poll is worthwhile. */
  async #poll(signal: AbortSignal | undefined): Promise<number> {
    const reply = await this.#transport.call("job", { path: { job_id: this.id }, signal });
    this.document = jsonOf<JobDocument>(reply);
    const retryAfter = retryAfterOf(reply.headers);
    return retryAfter === undefined ? POLL_MS : Math.max(100, retryAfter * 1000);
  }
}
