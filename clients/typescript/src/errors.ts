import type { ErrorCode, JobDocument, Reason } from "./contract.js";

/** Any failure of this package, except that a cancelled call throws the reason of its signal. */
export class BackdropError extends Error {
  override name = "BackdropError";
}

/** A refusal by the daemon. A reply that is not the daemon's own (of a proxy, say) has the code `http_STATUS`. */
export class ApiError extends BackdropError {
  override name = "ApiError";

  readonly code: ErrorCode | (string & {});
  /** The daemon's own sentence; `message` has status, code and request id around it. */
  readonly sentence: string;
  /** The invalid field, where it is one field. */
  readonly param: string | undefined;
  /** Finer than the code, where it is known. */
  readonly reason: Reason | (string & {}) | undefined;
  readonly requestId: string | undefined;
  /** Seconds after which another attempt is worthwhile, where the daemon says so. */
  readonly retryAfter: number | undefined;

  constructor(
    readonly status: number,
    error: { code: string; message: string; param?: string; reason?: string },
    requestId?: string,
    retryAfter?: number,
  ) {
    super(`${status} ${error.code}: ${error.message}${requestId ? ` (${requestId})` : ""}`);
    this.code = error.code;
    this.sentence = error.message;
    this.param = error.param;
    this.reason = error.reason;
    this.requestId = requestId;
    this.retryAfter = retryAfter;
  }
}

/** No reply: the daemon was not reached, or the connection was lost. */
export class ConnectionFailedError extends BackdropError {
  override name = "ConnectionFailedError";
}

/** No reply in time. */
export class TimedOutError extends ConnectionFailedError {
  override name = "TimedOutError";
}

/** A job ended with an error; `code` is one of the contract, or `cancelled`. */
export class JobFailedError extends BackdropError {
  override name = "JobFailedError";
  readonly code: string;

  constructor(readonly document: JobDocument) {
    const error = document.error ?? { code: "internal_error", message: "the job failed" };
    super(`${error.code}: ${error.message} (${document.job_id})`);
    this.code = error.code;
  }
}

/** A job was not over in the time that was given to `wait`; it goes on. */
export class WaitTimeoutError extends BackdropError {
  override name = "WaitTimeoutError";
}

/** A webhook that is not signed with the account's secret, is too old, or is malformed. */
export class WebhookError extends BackdropError {
  override name = "WebhookError";
}
