// What calls take.

/** A file: a path (in Node), bytes, or a `Blob`, such as the `File` of a browser's form. */
export type FileInput = string | URL | Blob | ArrayBuffer | ArrayBufferView;

/** A file, or a public https address (`string` or `URL`), which the daemon fetches. */
export type Picture = FileInput;

/** Left, top, right and bottom: numbers in pixels, or text such as `10%,20%,60%,90%`. */
export type BoxField = string | readonly [number, number, number, number];

/** A point: `[x, y]` in pixels, or text such as `50%,40%`. */
export type PointField = string | readonly [number, number];

/** One point or several. */
export type PointsField = PointField | readonly PointField[];

/** Options of a call that are not fields of the API. */
export interface CallOptions {
  /** The model to use: the header `x-service-model`. */
  serviceModel?: string | undefined;
  /** Replaces the generated `Idempotency-Key`, for repetitions beyond this call. */
  idempotencyKey?: string | undefined;
  /** Limit of each attempt in milliseconds, in place of the client's: in addition to the time that its files take at 64 kB/s. */
  timeoutMs?: number | undefined;
  /** Cancels the call; the daemon then stops its work. */
  signal?: AbortSignal | undefined;
}

const CALL_OPTIONS = ["serviceModel", "idempotencyKey", "timeoutMs", "signal"];

/** The fields among `options`, as the API writes them: boxes and points as text, the rest as it is. */
export function fieldsOf(options: object): Map<string, unknown> {
  const fields = new Map<string, unknown>();
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || CALL_OPTIONS.includes(name)) continue;
    fields.set(name, encoded(name, value));
  }
  return fields;
}

function encoded(name: string, value: unknown): unknown {
  if (name === "box" && Array.isArray(value)) return value.join(",");
  if (name === "point" || name === "not_point") {
    const isOne = !Array.isArray(value) || value.every((part) => typeof part === "number");
    const points: unknown[] = isOne ? [value] : (value as unknown[]);
    return points.map((point) => (Array.isArray(point) ? point.join(",") : point));
  }
  return value;
}

/** The address, if `picture` is one. */
export function addressOf(picture: unknown): string | undefined {
  const text = picture instanceof URL ? picture.href : picture;
  return typeof text === "string" && /^https?:\/\//i.test(text) ? text : undefined;
}
