// The TypeScript client against a daemon, and against `fault_proxy.py` before it; started by `packages.py`.

import assert from "node:assert/strict";
import { createHash, createHmac, randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdtemp, open, readFile, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import {
  ApiError,
  BackdropError,
  Client,
  type ClientOptions,
  ConnectionFailedError,
  JobFailedError,
  OPERATIONS,
  type Outcome,
  type Picture,
  type Progress,
  TimedOutError,
  WebhookError,
  terminalProgress,
  verifyWebhook,
} from "backdrop-client";

interface Entry {
  method: string;
  path: string;
  length: number;
  disconnected: boolean;
  headers: Record<string, string>;
  json?: unknown;
}

function variable(name: string): string {
  const value = process.env[name];
  assert(value, `${name} is missing`);
  return value;
}

const PROXY = variable("TEST_PROXY");
const ORIGIN = variable("TEST_ORIGIN");
const CLIP = variable("TEST_CLIP");
const LARGE = Number(variable("TEST_LARGE"));
const [CAT, ASTRONAUT] = ["chelsea.png", "astronaut.jpg"].map((name) => join(variable("TEST_PHOTOS"), name)) as [string, string];
const PNG = "89504e470d0a1a0a";

class Scenario {
  readonly nonce = randomUUID();
  readonly url: string;
  readonly client: Client;

  constructor(name: string, options: ClientOptions = {}) {
    this.url = `${PROXY}/${name}/${this.nonce}`;
    this.client = new Client({ url: this.url, ...options });
  }

  async log(): Promise<Entry[]> {
    return (await (await fetch(`${PROXY}/log/${this.nonce}`)).json()) as Entry[];
  }

  /** The bodies of the requests with `method`. */
  async sent(method: string): Promise<unknown[]> {
    return (await this.log()).filter((entry) => entry.method === method).map((entry) => entry.json);
  }

  async keys(): Promise<number> {
    return new Set((await this.log()).map((entry) => entry.headers["idempotency-key"])).size;
  }
}

const client = new Client();
let cat: Uint8Array;
let folder: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "backdrop-"));
  cat = (await client.remove(CAT)).bytes;
});

after(() => rm(folder, { recursive: true }));

/** Waits for what another process does; a minute stops a test that hangs. */
async function until(condition: () => Promise<boolean>): Promise<void> {
  for (let left = 600; left > 0; left -= 1) {
    if (await condition()) return;
    await sleep(100);
  }
  assert.fail("it did not happen within a minute");
}

function refused(code: string, status: number) {
  return (error: unknown) => error instanceof ApiError && error.code === code && error.status === status && error.requestId !== undefined;
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.subarray(0, 8)).toString("hex");
}

test("a result has the picture and what the headers say", async () => {
  const cutout = await client.remove(CAT, { edge: "hard", format: "png", max_dim: 200 });
  assert.equal(hex(cutout.bytes), PNG);
  assert.deepEqual([cutout.width, cutout.format, cutout.contentType], [200, "png", "image/png"]);
  assert(cutout.box && cutout.box.width <= 200 && cutout.box.height <= cutout.height);
  assert(cutout.uncertainty !== undefined && cutout.uncertainty >= 0 && cutout.uncertainty <= 1);
  assert.equal(cutout.edge, undefined);
  assert.equal((await client.remove(CAT, { edge: "auto", max_dim: 200 })).edge, "soft"); // it has fur
  assert.deepEqual(cutout.warnings, []);
  // A cat is no portrait, and what is cut out is not cut out anew.
  assert.equal((await client.headshot(CAT)).warnings.length, 1);
  assert.match((await client.remove(cutout.bytes)).warnings[0] ?? "", /keep_alpha/);
  assert.equal((await client.removeBatch([cutout.bytes]))[0]?.document.warnings?.length, 1);
  assert(cutout.cost > 0 && cutout.requestId && cutout.model && (cutout.timings["segment"] ?? 0) > 0);
  await cutout.save(join(folder, "cutout.png"));
  assert.deepEqual(new Uint8Array(await readFile(join(folder, "cutout.png"))), cutout.bytes);
  assert.equal(cutout.blob.size, cutout.bytes.length);
});

test("a picture may be a path, bytes, a blob or an address", async () => {
  const bytes = await readFile(CAT);
  const pictures: Picture[] = [pathToFileURL(CAT), bytes, new Uint8Array(bytes).buffer, new Blob([bytes]), new File([bytes], "cat.png"),
    `${ORIGIN}/chelsea.png`, new URL(`${ORIGIN}/chelsea.png`)];
  for (const picture of pictures) assert.deepEqual((await client.remove(picture)).bytes, cat);
});

test("fields are sent as the contract writes them", async () => {
  const address = `${ORIGIN}/chelsea.png`;
  const numbers = { box: [10, 20, 400, 280], point: [[100, 100], "50%,40%"], not_point: [5, 5] } as const;
  const text = await client.mask(CAT, { box: "10,20,400,280", point: ["100,100", "50%,40%"], not_point: "5,5" });
  for (const picture of [CAT, address]) assert.deepEqual((await client.mask(picture, numbers)).bytes, text.bytes);
  const mask = await client.mask(CAT, { stage: "mask" });
  const [one, two] = await Promise.all([CAT, address].map((picture) => client.remove(picture, { mask_file: mask.blob, mask_mode: "replace" })));
  assert.deepEqual(one?.bytes, two?.bytes);
  await assert.rejects(client.replaceBg(CAT, { bg_file: `${ORIGIN}/coffee.jpg` }), /bg_url/);
});

test("every operation of the contract is reached", async () => {
  const scenario = new Scenario("pass");
  const { client } = scenario;
  const pictures = [
    await client.remove(CAT), await client.removeUrl(`${ORIGIN}/chelsea.png`, { despill: 50 }), await client.mask(CAT),
    await client.replaceBg(CAT, { bg_file: ASTRONAUT }), await client.replaceBgAi(CAT, { prompt: "a wooden table" }),
    await client.studioShot(CAT, { aspect: "4:5", shadow: false }), await client.smartCrop(CAT, { padding: 4 }),
    await client.shadow(CAT, { blur: 10 }), await client.sticker(CAT, { stroke_width: 8 }), await client.headshot(ASTRONAUT),
    await client.faceRestore(ASTRONAUT, { strength: 0.5 }), await client.upscale(CAT, { scale: 2, max_dim: 300 }),
  ];
  assert(pictures.every((picture) => picture.bytes.length > 0 && picture.width > 0));
  assert.equal(pictures[4]?.backdropModel, "procedural");
  assert(pictures[9]?.face);
  assert.equal((await client.removeBatch([CAT])).length + (await client.removeBatchUrl([`${ORIGIN}/chelsea.png`])).length, 2);
  const job = await (await client.videoRemove(CLIP, { format: "gif" })).wait();
  assert.equal((await client.job(job.id)).status, "done");
  assert((await client.jobs()).some((one) => one.id === job.id));
  const address = new URL(job.resultUrl ?? "");
  await client.download(`${scenario.url}${address.pathname}${address.search}`, join(folder, "result.gif"));
  await assert.rejects(job.pause(), refused("conflict", 409));
  await job.delete();
  // Needs a database.
  const bulk = new Client({ url: scenario.url, retries: 0 }).bulk("s3://shop/photos", "s3://shop/cutouts");
  await assert.rejects(bulk, refused("unavailable", 503));
  assert.equal((await client.estimate({ endpoint: "/remove", count: 3 })).units, 3);
  const preset = await client.savePreset({ name: scenario.nonce, endpoint: "/remove", params: { edge: "hard" } });
  assert((await client.presets()).some((one) => one.id === preset.id));
  await client.deletePreset(preset.id);
  assert.equal((await client.models()).models[0]?.is_default, true);
  assert.equal((await client.account()).plan, "plus");
  assert((await client.usage({ from: new Date().toISOString().slice(0, 10), to: undefined })).usage);
  assert.match(String((await client.openapi())["openapi"]), /^3\.1/);
  assert.match(await client.openapiYaml(), /^openapi: 3\.1/);
  assert.match(await client.docs(), /<html/);

  // That the table is the contract's is checked by `clients/generate.py --check`.
  const log = await scenario.log();
  const missing = Object.entries(OPERATIONS).filter(([, [method, path]]) => {
    const pattern = new RegExp(`^${path.replace(/\{\w+\}/g, "[^/?]+").replace(/\./g, "\\.")}(\\?.*)?$`);
    return !log.some((entry) => entry.method === method && pattern.test(entry.path));
  });
  assert.deepEqual(missing, []);
});

for (const scenario of ["lose", "cut"]) {
  test(`a lost reply is asked for again and billed once: ${scenario}`, async () => {
    const { used } = await client.account();
    const unreliable = new Scenario(scenario);
    assert.deepEqual((await unreliable.client.remove(CAT)).bytes, cat);
    assert.deepEqual([(await unreliable.log()).length, await unreliable.keys()], [2, 1]);
    assert.equal((await client.account()).used, used + 1);
  });
}

// A 429 that says when to come back uses none of the attempts.
for (const [scenario, requests, retries] of [["busy", 3, 0], ["drains", 2, 1], ["gateway", 2, 1]] as const) {
  test(`refusals that pass are waited for: ${scenario}`, async () => {
    const unreliable = new Scenario(scenario, { retries });
    assert.deepEqual((await unreliable.client.remove(CAT)).bytes, cat);
    assert.deepEqual([(await unreliable.log()).length, await unreliable.keys()], [requests, 1]);
  });
}

test("retries and pauses are bounded", async () => {
  const [fails, later, stalled] = [new Scenario("fails", { retries: 1 }), new Scenario("later"), new Scenario("stall", { timeoutMs: 500, retries: 0 })];
  await assert.rejects(fails.client.remove(CAT), (error) => error instanceof ApiError && error.requestId === "req_planned");
  assert.equal((await fails.log()).length, 2);
  await assert.rejects(later.client.remove(CAT), (error) => error instanceof ApiError && error.retryAfter === 36000);
  assert.equal((await later.log()).length, 1);
  await assert.rejects(stalled.client.account(), TimedOutError);
  await assert.rejects(new Client({ url: "http://127.0.0.1:9", retries: 0 }).account(), ConnectionFailedError);
});

test("an attempt has the time that its files take in addition to its limit", async () => {
  const slow: typeof fetch = async (_, init) => {
    await sleep(1000, undefined, { signal: init?.signal ?? undefined }).catch(() => init?.signal?.throwIfAborted());
    return Response.json({ job_id: "slow", results: [] });
  };
  const impatient = new Client({ fetch: slow, timeoutMs: 100, retries: 0 });
  const [small, large] = [1, 640_000].map((bytes) => new Blob([new Uint8Array(bytes)])) as [Blob, Blob];
  assert((await impatient.remove(large)).bytes);
  assert.deepEqual(await impatient.removeBatch([small, large]), []);
  const calls = [impatient.remove(small), impatient.account(), impatient.videoRemove(small, { timeoutMs: 100 })];
  await Promise.all(calls.map((call) => assert.rejects(call, TimedOutError)));
  assert.equal((await impatient.videoRemove(small, { timeoutMs: undefined })).id, "slow");
});

test("what may have been carried out is repeated only with an idempotency key", async () => {
  const [lost, drains, overwritten] = [new Scenario("lose"), new Scenario("drains"), new Scenario("lose")];
  await assert.rejects(lost.client.savePreset({ name: lost.nonce, params: {} }), ConnectionFailedError);
  assert.equal((await lost.log()).length, 1);
  const { id } = await drains.client.savePreset({ name: drains.nonce, params: {} });
  assert.equal((await drains.log()).length, 2);
  assert.equal((await overwritten.client.savePreset({ id, name: overwritten.nonce, params: {} })).id, id);
  for (const preset of await client.presets()) await client.deletePreset(preset.id);
});

test("errors have the code, field and request of the envelope", async () => {
  const proxied = new Scenario("pass");
  // @ts-expect-error: the type has the values of the contract.
  await assert.rejects(proxied.client.remove(CAT, { edge: "fuzzy" }), (error) => {
    assert(error instanceof ApiError && error instanceof BackdropError);
    assert.deepEqual([error.status, error.code, error.param], [400, "invalid_parameter", "edge"]);
    return error.sentence.includes("fuzzy");
  });
  assert.equal((await proxied.log()).length, 1);
  await assert.rejects(new Client({ key: "wrong" }).account(), refused("unauthorized", 401));
  await assert.rejects(client.remove(`${ORIGIN}/missing.jpg`), (error) => error instanceof ApiError && error.reason === "status");
  await assert.rejects(client.job("job_missing"), refused("not_found", 404));
  await assert.rejects(client.remove(new Blob(["no picture"])), refused("unsupported_media_type", 415));
  await assert.rejects(new Scenario("gateway", { retries: 0 }).client.remove(CAT), /http_502/);
  await assert.rejects(client.remove(join(folder, "missing.jpg")));
});

test("a key of one's own spans calls", async () => {
  const { used } = await client.account();
  const idempotencyKey = randomUUID();
  for (let left = 2; left > 0; left -= 1) assert.deepEqual((await client.remove(CAT, { idempotencyKey })).bytes, cat);
  assert.equal((await client.account()).used, used + 1);
  await assert.rejects(client.remove(ASTRONAUT, { idempotencyKey }), refused("idempotency_conflict", 409));
});

test("the model is selected by its header", async () => {
  const name = (await client.account()).model.split("/")[0];
  assert((await client.remove(CAT, { serviceModel: `${name}-quality` })).model.startsWith(`${name}-quality/`));
});

test("rows of a batch come without base64", async () => {
  const scenario = new Scenario("pass");
  const rows = await scenario.client.removeBatch([CAT, new Blob(["no picture"]), ASTRONAUT], { format: "webp" });
  assert.deepEqual(rows.map((row) => [row.index, row.error?.code]), [[0, undefined], [1, "unsupported_media_type"], [2, undefined]]);
  assert.equal(new TextDecoder().decode(rows[0]?.bytes?.subarray(0, 4)), "RIFF");
  assert.equal(rows[2]?.bytes?.length, rows[2]?.document.size_bytes);
  assert(rows[2]?.box);
  await rows[2].save(join(folder, "two.webp"));
  assert.equal((await stat(join(folder, "two.webp"))).size, rows[2].bytes?.length);
  await assert.rejects(rows[1]?.save(join(folder, "one.webp")) ?? Promise.resolve(), ApiError);
  assert.match((await scenario.log())[0]?.headers["accept"] ?? "", /zip/);
  const fetched = await client.removeBatchUrl([`${ORIGIN}/missing.jpg`, new URL(`${ORIGIN}/none.jpg`)]);
  assert.deepEqual(fetched.map((row) => row.error?.code), ["fetch_failed", "fetch_failed"]);
});

test("a batch of any size goes on after failures, and ends where its loop is left", async () => {
  const pictures = [CAT, new Blob(["no picture"]), join(folder, "missing.jpg"), ASTRONAUT, CAT];
  const outcomes: Outcome[] = [];
  const progress: string[] = [];
  const operation = (photo: Picture, { signal }: { signal: AbortSignal }) => client.sticker(photo, { max_dim: 128, signal });
  const [bar, drawn] = [terminalProgress(), [] as string[]];
  const onProgress = (state: Progress) => {
    progress.push(`${state.done}/${state.total}`);
    // Calls nothing asynchronous, so that only the bar writes meanwhile.
    const write = process.stderr.write;
    process.stderr.write = (text: string | Uint8Array) => drawn.push(String(text)) > 0;
    bar(state);
    process.stderr.write = write;
  };
  for await (const outcome of client.batch(pictures, { operation, concurrency: 2, onProgress })) outcomes.push(outcome);
  outcomes.sort((one, two) => one.index - two.index);
  assert.deepEqual(outcomes.map((outcome) => outcome.picture), pictures);
  assert.deepEqual(outcomes.map((outcome) => outcome.error === undefined), [true, false, false, true, true]);
  assert.deepEqual(outcomes[0]?.image?.bytes, outcomes[4]?.image?.bytes);
  assert.equal(progress.at(-1), "5/5");
  assert.match(drawn.at(-1) ?? "", /\[#{24}\] 5\/5, 2 failed/);
  const scenario = new Scenario("pass");
  for await (const _ of scenario.client.batch(Array<string>(50).fill(CAT), { concurrency: 2 })) break;
  assert((await scenario.log()).length <= 4, "leaving the loop sends no further pictures");
});

test("a clip is a job that is waited for", async () => {
  const seen: number[] = [];
  const job = await client.videoRemove(CLIP, { format: "webp", webhook_url: `${ORIGIN}/hook` });
  await job.wait({ timeoutMs: 300_000, onProgress: (percent) => seen.push(percent) });
  assert.deepEqual([job.status, seen.at(-1), job.error], ["done", 100, undefined]);
  assert(job.outputSeconds);
  await job.save(join(folder, "clip.webp"));
  const saved = await readFile(join(folder, "clip.webp"));
  assert.equal(saved.subarray(0, 4).toString(), "RIFF");
  assert(!(await readdir(folder)).some((name) => name.endsWith(".part")));
  assert.deepEqual(Buffer.from(await new Response(job.stream()).arrayBuffer()), saved);
  type Hook = { body: string; headers: Record<string, string>; received: number };
  const hooks = async () => (await (await fetch(`${PROXY}/webhooks`)).json()) as Hook[];
  await until(async () => (await hooks()).some((hook) => hook.body.includes(job.id)));
  const hook = (await hooks()).find((one) => one.body.includes(job.id));
  assert(hook);
  const secret = (await client.account()).webhook_secret ?? "";
  assert.equal((await verifyWebhook(hook.body, hook.headers, secret)).job_id, job.id);
  await assert.rejects(verifyWebhook(`${hook.body} `, hook.headers, secret), WebhookError);
  await assert.rejects(verifyWebhook(hook.body, hook.headers, secret, { now: hook.received + 3600 }), WebhookError);
  await job.delete();
  await assert.rejects(job.refresh(), refused("not_found", 404));
});

test("a job can be cancelled", async () => {
  const jobs = await Promise.all([0, 1, 2, 3].map((smoothing) => client.videoRemove(CLIP, { smoothing })));
  const last = jobs.pop();
  assert(last);
  await last.delete();
  // Where it was over already, it is deleted.
  await assert.rejects(last.wait({ timeoutMs: 300_000 }), (error) => error instanceof JobFailedError ? error.code === "cancelled" : refused("not_found", 404)(error));
  for (const job of jobs) await (await job.wait({ timeoutMs: 300_000 })).delete();
});

test("a bulk run is a job that is paused, resumed and waited for", async () => {
  const scenario = new Scenario("bulk");
  const seen: number[] = [];
  const places = { from: "s3://shop/photos", to: "s3://shop/cutouts" };
  const fields = { endpoint: "/studio-shot", params: { padding: "10%" }, include: ["*.jpg"], limit: 10 };
  const call = { idempotencyKey: "a key", serviceModel: "a model" };
  const job = await scenario.client.bulk(places.from, places.to, { ...fields, ...call, report: undefined });
  assert.deepEqual([job.bulk?.from, job.bulk?.to, job.document.format], [places.from, places.to, undefined]);
  assert.equal((await job.pause()).bulk?.state, "paused");
  assert.equal((await job.resume()).bulk?.state, "running");
  await job.wait({ timeoutMs: 60_000, onProgress: (percent) => seen.push(percent) });
  // Objects that failed are in the report, and no error of the run.
  assert.deepEqual([job.status, job.error, job.bulk?.failed, seen], ["done", undefined, 1, [50, 100]]);
  assert.deepEqual(job.bulk?.summary, { done: 9, failed: 1 });
  await assert.rejects(job.save(join(folder, "results")), /s3:\/\/shop\/cutouts/);
  assert(!(await readdir(folder)).some((name) => name.startsWith("results")));
  // Each first reply is lost.
  assert.deepEqual(await scenario.sent("POST"), Array(2).fill({ ...places, ...fields }));
  for (const { headers } of (await scenario.log()).filter((entry) => entry.method === "POST")) {
    assert.deepEqual([headers["idempotency-key"], headers["x-service-model"]], ["a key", "a model"]);
  }
  assert.deepEqual(await scenario.sent("PATCH"), [{ state: "paused" }, { state: "paused" }, { state: "running" }]);
});

test("a cancelled bulk run throws its error", async () => {
  const scenario = new Scenario("bulk");
  const job = await scenario.client.bulk("s3://shop/photos", "s3://shop/cutouts");
  await job.delete();
  await assert.rejects(job.wait({ timeoutMs: 60_000 }), (error) => error instanceof JobFailedError && error.code === "cancelled");
  const posts = (await scenario.log()).filter((entry) => entry.method === "POST");
  assert.equal(posts.length, 2);
  assert.equal(new Set(posts.map((entry) => entry.headers["idempotency-key"])).size, 1);
});

test("webhooks are those of the standard", async () => {
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const body = JSON.stringify({ job_id: "job_1" });
  const now = Math.floor(Date.now() / 1000);
  const hmac = createHmac("sha256", Buffer.from(secret.slice(6), "base64")).update(`msg_1.${now}.${body}`).digest("base64");
  const headers = { "Webhook-Id": "msg_1", "Webhook-Timestamp": String(now), "Webhook-Signature": `v1,bm9uZQ== v1,${hmac}` };
  assert.equal((await verifyWebhook(body, headers, secret)).job_id, "job_1");
  assert.equal((await verifyWebhook(new TextEncoder().encode(body), new Headers(headers), secret)).job_id, "job_1");
  for (const changed of [{ "Webhook-Id": "msg_2" }, { "Webhook-Signature": `v1a,${hmac}` }, { "Webhook-Timestamp": "soon" }]) {
    await assert.rejects(verifyWebhook(body, { ...headers, ...changed }, secret), WebhookError);
  }
  await assert.rejects(verifyWebhook(body, {}, secret), WebhookError);
  // As a server of Node's `http2` has them.
  assert.equal((await verifyWebhook(body, { ":method": "POST", accept: ["a", "b"], ...headers }, secret)).job_id, "job_1");
  for (const wrong of ["whsec_no_base64", "whsec_", ""]) {
    await assert.rejects(verifyWebhook(body, headers, wrong), { name: "TypeError", message: /whsec_/ });
  }
});

async function digestOf(path: string): Promise<string> {
  const digest = createHash("sha256");
  for await (const piece of createReadStream(path)) digest.update(piece as Buffer);
  return digest.digest("hex");
}

test("large bodies are streamed both ways, and downloads go on", async () => {
  const [clip, result] = [join(folder, "clip.bin"), join(folder, "result")];
  const file = await open(clip, "w");
  const piece = Buffer.from(Array.from({ length: 1 << 16 }, (_, at) => at % 256));
  for (let left = LARGE; left > 0; left -= piece.length) await file.write(piece, 0, Math.min(left, piece.length));
  await file.close();
  const [sink, large, changed] = [new Scenario("sink"), new Scenario("large"), new Scenario("changed")];
  let peak = 0;
  const external = () => process.memoryUsage().external + process.memoryUsage().heapUsed;
  const start = external();
  const sampling = setInterval(() => (peak = Math.max(peak, external() - start)), 5);
  await sink.client.videoRemove(clip, { format: "webm" });
  await large.client.download(`${large.url}/results/one`, result);
  clearInterval(sampling);
  assert(peak < LARGE, `${peak} bytes at once`);
  const [upload] = await sink.log();
  assert(upload && upload.length > LARGE && upload.length < LARGE + 4096, "neither base64 nor chunks");
  assert(upload.headers["content-length"]);
  assert.equal(await digestOf(result), await digestOf(clip));
  const [first, second] = await large.log();
  assert.equal(first?.headers["range"], undefined);
  assert.match(second?.headers["range"] ?? "", /^bytes=\d+-$/);
  assert.equal(first?.headers["authorization"], undefined, "results need no key, and may lie elsewhere");
  await assert.rejects(changed.client.download(`${changed.url}/results/one`, join(folder, "changed")), /download it again/);
  assert(!(await readdir(folder)).some((name) => name.startsWith("changed")));
});

test("cancelling closes the connection and repeats nothing", async () => {
  const scenario = new Scenario("stall");
  const controller = new AbortController();
  const call = scenario.client.remove(CAT, { signal: controller.signal });
  await until(async () => (await scenario.log()).length === 1);
  controller.abort(new Error("enough"));
  await assert.rejects(call, /enough/);
  await until(async () => (await scenario.log())[0]?.disconnected === true);
  assert.equal((await scenario.log()).length, 1);
});

test("cancelling the stream of a result closes its connection and repeats nothing", async () => {
  const scenario = new Scenario("stall");
  const document = { job_id: "job_1", status: "done", progress: 100, result_url: `${scenario.url}/results/one` };
  const answered: typeof fetch = async (url, init) => String(url).includes("/jobs/") ? Response.json(document) : fetch(url, init);
  const job = await new Client({ url: scenario.url, fetch: answered }).job("job_1");
  const reader = job.stream().getReader();
  const piece = reader.read();
  await until(async () => (await scenario.log()).length === 1);
  await reader.cancel();
  assert.equal((await piece).done, true);
  await until(async () => (await scenario.log())[0]?.disconnected === true);
  assert.equal((await scenario.log()).length, 1);
});

test("a result is written completely where the system takes a part of each piece", async () => {
  const path = join(folder, "partial");
  const handle = await open(path, "w");
  const prototype = Object.getPrototypeOf(handle) as { write(bytes: Uint8Array, offset?: number, length?: number): Promise<unknown> };
  await handle.close();
  const { write } = prototype;
  prototype.write = function (bytes) {
    return write.call(this, bytes, 0, 1);
  };
  const bytes = new Uint8Array(100_000).fill(7);
  const partial = new Client({ fetch: async () => new Response(bytes) });
  await partial.download("/results/one", path).finally(() => (prototype.write = write));
  assert.deepEqual(new Uint8Array(await readFile(path)), bytes);
});

test("the key is needed and not shown", async () => {
  const { inspect } = await import("node:util");
  assert(!inspect(client, { depth: 9, showHidden: true }).includes(variable("BACKDROP_KEY")));
  const key = process.env["BACKDROP_KEY"];
  delete process.env["BACKDROP_KEY"];
  assert.throws(() => new Client(), /BACKDROP_KEY/);
  process.env["BACKDROP_KEY"] = key;
});
