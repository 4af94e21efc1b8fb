import type { JobDocument } from "./contract.js";
import { WebhookError } from "./errors.js";

/**
 * The job of a webhook whose signature (Standard Webhooks, `v1`) is valid; throws `WebhookError` for any other. `body` is
 * what was received, unparsed; `secret` the `webhook_secret` of `account()`. The same `webhook-id` may come more than once.
 */
export async function verifyWebhook(
  body: string | Uint8Array,
  headers: Headers | Record<string, string | string[] | undefined>,
  secret: string,
  options: {
    /** Age in seconds, in either direction, beyond which a webhook is refused. */
    toleranceSeconds?: number;
    /** Seconds of Unix time. */
    now?: number;
  } = {},
): Promise<JobDocument> {
  const { toleranceSeconds = 300, now = Date.now() / 1000 } = options;
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", bytesOf(secret), algorithm, false, ["verify"]);
  const [id, timestamp, signatures] = ["id", "timestamp", "signature"].map((name) => headerOf(headers, `webhook-${name}`));
  if (!id || !timestamp || !signatures || !/^\d+$/.test(timestamp)) {
    throw new WebhookError("webhook-id, webhook-timestamp or webhook-signature is missing or malformed");
  }
  if (Math.abs(now - Number(timestamp)) > toleranceSeconds) {
    throw new WebhookError(`the webhook was signed at ${timestamp}, more than ${toleranceSeconds} seconds from now`);
  }
  const raw = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const head = new TextEncoder().encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(head.length + raw.length);
  signed.set(head);
  signed.set(raw, head.length);
  let isValid = false;
  for (const one of signatures.split(" ")) {
    if (!one.startsWith("v1,")) continue;
    let signature: Uint8Array<ArrayBuffer>;
    try {
      signature = decoded(one.slice(3));
    } catch {
      continue;
    }
    // Compares in constant time.
    if (await crypto.subtle.verify(algorithm, key, signature, signed)) isValid = true;
  }
  if (!isValid) throw new WebhookError("the signature is not valid");
  try {
    return JSON.parse(new TextDecoder().decode(raw)) as JobDocument;
  } catch {
    throw new WebhookError("the body is not JSON");
  }
}

/** A header by its name in lower case. The others are not read: Node has those of HTTP/2, such as `:method`, among them. */
function headerOf(headers: Headers | Record<string, string | string[] | undefined>, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  return Object.entries(headers).find(([one]) => one.toLowerCase() === name)?.[1]?.toString();
}

/** The key in a secret. An empty one would verify what anybody signs. */
function bytesOf(secret: string): Uint8Array<ArrayBuffer> {
  try {
    const key = decoded(secret.replace(/^whsec_/, ""));
    if (key.length > 0) return key;
  } catch {
    // Not base64.
  }
  throw new TypeError("the secret is not in the notation of Standard Webhooks (whsec_…)");
}

function decoded(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
