import { writeFile } from "./files.js";

/** A rectangle in pixels of the result. */
export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

function boxOf(text: string | null): Box | undefined {
  const [left, top, width, height] = (text ?? "").split(",").map(Number);
  if (left === undefined || top === undefined || width === undefined || height === undefined) return undefined;
  return { left, top, width, height };
}

function numberOf(text: string | null): number | undefined {
  return text === null ? undefined : Number(text);
}

/** A picture that the daemon made. */
export class ImageResult {
  constructor(
    /** The file. */
    readonly bytes: Uint8Array<ArrayBuffer>,
    /** The reply's headers. */
    readonly headers: Headers,
  ) {}

  /** The media type, such as `image/png`. */
  get contentType(): string {
    return this.headers.get("content-type") ?? "";
  }

  /** `png`, `webp` or `jpg`, which is also the file's usual suffix. */
  get format(): string {
    return this.contentType.replace("image/", "").replace("jpeg", "jpg");
  }

  /** The file, for `URL.createObjectURL` and forms. */
  get blob(): Blob {
    return new Blob([this.bytes], { type: this.contentType });
  }

  /** Writes the file (in Node), in the format that it has, whatever the suffix of `path` is. */
  async save(path: string): Promise<void> {
    await writeFile(path, this.bytes);
  }

  /** Width in pixels. */
  get width(): number {
    return Number(this.headers.get("x-service-width"));
  }

  /** Height in pixels. */
  get height(): number {
    return Number(this.headers.get("x-service-height"));
  }

  /** The subject in the result; undefined where the endpoint cuts nothing out. */
  get box(): Box | undefined {
    return boxOf(this.headers.get("x-service-foreground"));
  }

  /** The face in the result, of `headshot` and `faceRestore`; undefined without one. */
  get face(): Box | undefined {
    return boxOf(this.headers.get("x-service-face"));
  }

  /** Estimated probability that the cutout is bad, 0 to 1; undefined where the endpoint cuts nothing out. */
  get uncertainty(): number | undefined {
    return numberOf(this.headers.get("x-service-uncertainty"));
  }

  /** The edge that was chosen with `edge: "auto"`: `soft` or `hard`; undefined without it. */
  get edge(): string | undefined {
    return this.headers.get("x-service-edge") ?? undefined;
  }

  /** What may not be expected of the picture, a sentence each. */
  get warnings(): string[] {
    // A list of strings (RFC 9651), which in brackets is JSON.
    return JSON.parse(`[${this.headers.get("x-service-warnings") ?? ""}]`) as string[];
  }

  /** The billed price in US dollars. */
  get cost(): number {
    return Number(this.headers.get("x-service-cost"));
  }

  /** Name and version of the network. */
  get model(): string {
    return this.headers.get("x-service-model") ?? "";
  }

  /** What made the backdrop of `replaceBgAi`. */
  get backdropModel(): string | undefined {
    return this.headers.get("x-service-backdrop-model") ?? undefined;
  }

  /** The words of the prompt that the built-in generator recognized, percent-encoded; `none` without one. */
  get promptWords(): string | undefined {
    return this.headers.get("x-service-prompt-words") ?? undefined;
  }

  /** Names the request in the daemon's log. */
  get requestId(): string {
    return this.headers.get("x-request-id") ?? "";
  }

  /** Milliseconds from the last byte of the request to the first of the reply. */
  get latencyMs(): number {
    return Number(this.headers.get("x-service-latency"));
  }

  /** Milliseconds by stage. */
  get timings(): Record<string, number> {
    const stages = (this.headers.get("server-timing") ?? "").matchAll(/([\w-]+);dur=([0-9.]+)/g);
    return Object.fromEntries(Array.from(stages, ([, name, duration]) => [name, Number(duration)]));
  }

  /** Images left this month; undefined where there is no quota. */
  get quotaRemaining(): number | undefined {
    return numberOf(this.headers.get("x-quota-remaining"));
  }
}
