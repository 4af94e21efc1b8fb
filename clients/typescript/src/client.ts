import { BATCH_ACCEPT, type BatchOptions, type BatchRow, type Outcome, batch, rowsOf } from "./batch.js";
import {
  type Account,
  type BulkFields,
  type Estimate,
  type EstimateFields,
  type JobDocument,
  type Models,
  type Operation,
  PictureMethods,
  type PresetFields,
  type RemoveBatchFields,
  type RemoveBatchUrlFields,
  type SavedPreset,
  type Usage,
  type VideoRemoveFields,
} from "./contract.js";
import { type CallOptions, type FileInput, type Picture, addressOf, fieldsOf } from "./fields.js";
import { blobOf, writePieces } from "./files.js";
import { ImageResult } from "./image.js";
import { Job } from "./job.js";
import { type ClientOptions, type Parts, Transport, jsonOf } from "./transport.js";

const CLIP_TIMEOUT_MS = 900_000;

/** Calls a daemon. Fields have the names and values of the HTTP API; options in camel case are the client's own. */
export class Client extends PictureMethods {
  readonly #transport: Transport;

  constructor(options: ClientOptions = {}) {
    super();
    this.#transport = new Transport(options);
  }

  protected override async picture(operation: Operation, picture: Picture, options: object): Promise<ImageResult> {
    const reply = await this.#transport.call(operation, await partsOf(options, [["file", picture]]));
    return new ImageResult(reply.bytes, reply.headers);
  }

  /** Cuts the subjects out of up to ten files in one request; a file that fails is a row. `POST /remove-batch` */
  async removeBatch(pictures: readonly FileInput[], options: RemoveBatchFields & CallOptions = {}): Promise<BatchRow[]> {
    const parts = await partsOf(options, pictures.map((picture) => ["files", picture]));
    parts.headers = { ...parts.headers, accept: BATCH_ACCEPT };
    return rowsOf(await this.#transport.call("removeBatch", parts));
  }

  /** The same for addresses, also where none could be fetched. `POST /remove-batch-url` */
  async removeBatchUrl(urls: readonly (string | URL)[], options: RemoveBatchUrlFields & CallOptions = {}): Promise<BatchRow[]> {
    const fields: CallOptions & { urls: string[] } = { ...options, urls: urls.map(String) };
    const parts = await partsOf(fields, []);
    parts.headers = { ...parts.headers, accept: BATCH_ACCEPT };
    return rowsOf(await this.#transport.call("removeBatchUrl", parts));
  }

  /**
   * Sends any number of pictures, some at a time, and yields each as it is finished. A picture that fails does not end the
   * batch; leaving the loop cancels what is under way.
   */
  batch<P extends Picture>(pictures: Iterable<P>, options: BatchOptions<P> = {}): AsyncGenerator<Outcome<P>, void, undefined> {
    return batch(pictures, options.operation ?? ((picture, { signal }) => this.remove(picture, { signal })), options);
  }

  /** Cuts the subject out of a clip, as a job to `wait` for. `POST /video/remove` */
  async videoRemove(clip: Picture, options: VideoRemoveFields & CallOptions = {}): Promise<Job> {
    const timeoutMs = options.timeoutMs ?? Math.max(CLIP_TIMEOUT_MS, this.#transport.timeoutMs);
    const parts = await partsOf({ ...options, timeoutMs }, [["file", clip]]);
    return new Job(this.#transport, jsonOf<JobDocument>(await this.#transport.call("videoRemove", parts)));
  }

  /**
   * Processes the pictures of a place in object storage, such as `s3://shop/photos`, into another one, as a job to `wait` for.
   * The operator has to allow both places. `POST /bulk`
   */
  async bulk(from: string, to: string, options: BulkFields & CallOptions = {}): Promise<Job> {
    const fields: CallOptions & { from: string; to: string } = { ...options, from, to };
    return new Job(this.#transport, jsonOf<JobDocument>(await this.#transport.call("bulk", await partsOf(fields, []))));
  }

  /** The jobs of this key, newest first. `GET /jobs` */
  async jobs(): Promise<Job[]> {
    return (await this.#pages<JobDocument>("listJobs", "jobs")).map((document) => new Job(this.#transport, document));
  }

  /** A job by its id. `GET /jobs/{job_id}` */
  async job(id: string): Promise<Job> {
    return new Job(this.#transport, jsonOf<JobDocument>(await this.#transport.call("job", { path: { job_id: id } })));
  }

  /** Downloads the result of a job to a file, piece by piece (in Node). `GET /results/{object}` */
  async download(resultUrl: string, path: string, signal?: AbortSignal): Promise<void> {
    await writePieces(path, this.#transport.pieces(resultUrl, signal));
  }

  /** What a call would cost. `POST /estimate` */
  async estimate(fields: EstimateFields): Promise<Estimate> {
    return jsonOf<Estimate>(await this.#transport.call("estimate", { body: JSON.stringify(fields), isRepeatable: true }));
  }

  /** The account's presets. `GET /presets` */
  presets(): Promise<SavedPreset[]> {
    return this.#pages<SavedPreset>("listPresets", "presets");
  }

  /** Saves a preset; with an `id`, overwrites that one. `POST /presets` */
  async savePreset(fields: PresetFields): Promise<SavedPreset> {
    // With an id the same preset is overwritten with the same content.
    const parts: Parts = { body: JSON.stringify(fields), isRepeatable: fields.id !== undefined };
    return jsonOf<SavedPreset>(await this.#transport.call("savePreset", parts));
  }

  /** Deletes a preset. `DELETE /presets` */
  async deletePreset(id: string): Promise<void> {
    await this.#transport.call("deletePreset", { query: { id } });
  }

  /** The models that cut out, the account's default first. `GET /models` */
  async models(): Promise<Models> {
    return jsonOf<Models>(await this.#transport.call("models"));
  }

  /** Plan, quota and rate. `GET /account` */
  async account(): Promise<Account> {
    return jsonOf<Account>(await this.#transport.call("account"));
  }

  /** Use by key and day, from one day to another (UTC, `2026-01-31`). `GET /usage` */
  async usage(days: { from?: string | undefined; to?: string | undefined } = {}): Promise<Usage> {
    return jsonOf<Usage>(await this.#transport.call("usage", { query: { ...days } }));
  }

  /** The contract of the daemon. `GET /openapi.json` */
  async openapi(): Promise<Record<string, unknown>> {
    return jsonOf<Record<string, unknown>>(await this.#transport.call("openapiJson"));
  }

  /** The contract as YAML. `GET /openapi.yaml` */
  async openapiYaml(): Promise<string> {
    return new TextDecoder().decode((await this.#transport.call("openapi")).bytes);
  }

  /** The reference as an HTML page. `GET /docs` */
  async docs(): Promise<string> {
    return new TextDecoder().decode((await this.#transport.call("docs")).bytes);
  }

  async #pages<T>(operation: Operation, member: string): Promise<T[]> {
    const rows: T[] = [];
    for (let query: Record<string, string> = {}; ; ) {
      const page = jsonOf<Record<string, T[]> & { next_cursor?: string }>(await this.#transport.call(operation, { query }));
      rows.push(...(page[member] ?? []));
      if (page.next_cursor === undefined) return rows;
      query = { cursor: page.next_cursor };
    }
  }
}

/** A request with pictures: a form, or JSON where all that is sent are addresses. */
async function partsOf(options: CallOptions & object, pictures: [name: string, picture: Picture][]): Promise<Parts> {
  const fields = fieldsOf(options);
  const files: [string, FileInput][] = [];
  for (const [name, value] of fields) {
    if (!name.endsWith("_file")) continue;
    if (addressOf(value)) throw new TypeError(`\`${name}\` takes a file; an address goes into \`${name.replace("_file", "_url")}\``);
    files.push([name, value as FileInput]);
    fields.delete(name);
  }
  for (const [name, picture] of pictures) {
    const address = name === "file" ? addressOf(picture) : undefined;
    if (address !== undefined) fields.set("url", address);
    // Last, so that invalid fields are refused before the file is sent.
    else files.push([name, picture]);
  }
  const headers: Record<string, string> = { "idempotency-key": options.idempotencyKey ?? `ts-${uniqueId()}` };
  if (options.serviceModel !== undefined) headers["x-service-model"] = options.serviceModel;
  const parts: Parts = { headers, timeoutMs: options.timeoutMs, signal: options.signal };
  if (files.length === 0) return { ...parts, body: JSON.stringify(Object.fromEntries(fields)) };
  const form = new FormData();
  for (const [name, value] of fields) for (const one of Array.isArray(value) ? value : [value]) form.append(name, String(one));
  for (const [name, file] of files) form.append(name, ...(await blobOf(file)));
  return { ...parts, body: form };
}

/** 128 random bits; `crypto.randomUUID` is missing from pages without https. */
function uniqueId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
