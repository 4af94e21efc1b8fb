/**
 * Client of Backdrop, which cuts subjects out of photos over HTTP.
 *
 * Requests are repeated after lost connections, 408, 429 and 5xx, with an `Idempotency-Key`, so that none is billed twice;
 * every failure is a `BackdropError`.
 */
export * from "./contract.js";
export { BatchRow, terminalProgress, type BatchOptions, type Outcome, type Progress } from "./batch.js";
export { Client } from "./client.js";
export * from "./errors.js";
export type { BoxField, CallOptions, FileInput, Picture, PointField, PointsField } from "./fields.js";
export { ImageResult, type Box } from "./image.js";
export { Job } from "./job.js";
export type { ClientOptions } from "./transport.js";
export { verifyWebhook } from "./webhooks.js";
