// The photos of the page: reading files, sending them, and the strip with progress and a ZIP of all results.

import { call, explain, uniqueKey } from "./api.js";
import { daemon } from "./contract.js";
import { bytes, h } from "./dom.js";
import { Marks } from "./marks.js";
import { fileName } from "./viewer.js";
import { zip } from "./zip.js";

/** Requests of this page that run at once. */
const AT_ONCE = 2;
/** Longest side in pixels, and bytes, of a picture that is sent for a preview. */
const PREVIEW = { side: 1024, bytes: 500_000 };

/** A photo of a file, with its size where the browser can show it, and within the limits of the daemon. */
export async function readPhoto(file) {
  const url = URL.createObjectURL(file);
  const photo = { file, name: file.name || "photo.png", url, width: 0, height: 0, shown: false, marks: new Marks(), removal: new AbortController(), results: new Map(), states: new Map() };
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    Object.assign(photo, { width: image.naturalWidth, height: image.naturalHeight, shown: true });
    await shrink(photo, image);
  } catch {
    // HEIC in most browsers: the service reads it, the page shows the result alone.
  }
  return photo;
}

/** Makes a photo that the daemon would refuse smaller: fewer pixels, then fewer bytes. */
async function shrink(photo, image) {
  const { max_bytes: most, max_side: side, max_megapixels: megapixels } = daemon;
  const { file, width, height } = photo;
  let scale = Math.min(1, side / Math.max(width, height), Math.sqrt((megapixels * 1e6) / (width * height)));
  if (scale === 1 && file.size <= most) return;
  let copy;
  for (; !copy || copy.file.size > most; scale *= 0.8) {
    copy = await resized(file, image, Math.floor(width * scale), Math.floor(height * scale));
    // Too large for this browser: the service says what it takes.
    if (!copy.file) return;
  }
  URL.revokeObjectURL(photo.url);
  Object.assign(photo, copy, {
    url: URL.createObjectURL(copy.file),
    note: `Made smaller before it is sent: ${copy.width} × ${copy.height} in place of ${width} × ${height} pixels. The server takes ${side} pixels a side, ${megapixels} megapixels and ${bytes(most)}.`,
  });
}

/** A copy of another size, as JPEG, or PNG where it has transparency; its `file` is null where the browser cannot make it. */
async function resized({ type }, image, width, height) {
  const canvas = h("canvas", { width, height });
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, width, height);
  const format = type !== "image/jpeg" && (await hasTransparency(image)) ? "image/png" : "image/jpeg";
  return { width, height, file: await new Promise((resolve) => canvas.toBlob(resolve, format, 0.92)) };
}

/** The photo as it is sent for a preview: a smaller copy, or the photo where it is small. */
async function previewCopy(photo) {
  const { file, url, width, height } = photo;
  const scale = Math.min(1, PREVIEW.side / Math.max(width, height));
  if (scale === 1 && file.size <= PREVIEW.bytes) return photo;
  const image = new Image();
  image.src = url;
  await image.decode();
  return { ...photo, scale, ...(await resized(file, image, Math.ceil(width * scale), Math.ceil(height * scale))) };
}

/** The mask that the marks give, as the alpha of a canvas, by a request with a small copy of the photo. */
export async function preview(photo, fields, signal) {
  photo.copy ??= previewCopy(photo);
  const body = await formOf(await photo.copy, { takesMarks: true }, { fields: [["stage", "mask"], ...fields], files: [] });
  const reply = await call("/mask", { method: "POST", body, signal: AbortSignal.any([signal, photo.removal.signal]), patience: 0 });
  const image = await createImageBitmap(await reply.blob());
  const { width, height } = image;
  const canvas = h("canvas", { width, height });
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, width, height);
  for (let at = 0; at < pixels.data.length; at += 4) pixels.data[at + 3] = pixels.data[at];
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/** Ends the request of a photo, or prevents it, and frees its memory. */
export function forget(photo) {
  photo.removal.abort();
  URL.revokeObjectURL(photo.url);
  for (const result of photo.results.values()) URL.revokeObjectURL(result.url);
}

/** The form of a photo: fields and marks first, files last, so that mistakes are refused before the upload is read. */
async function formOf(photo, endpoint, { fields, files }) {
  const form = new FormData();
  for (const [name, value] of fields) form.append(name, value);
  if (endpoint.takesMarks && photo.shown) {
    for (const [name, value] of photo.marks.fields(photo.scale)) form.append(name, value);
    const mask = await photo.marks.mask(photo.width, photo.height, photo.scale);
    if (mask) form.append("mask_file", mask, "strokes.png");
  }
  for (const [name, file] of files) form.append(name, file, file.name);
  form.append("file", photo.file, photo.name);
  return form;
}

/** Sends a photo; the result is kept with it, and with the settings and marks that it was made with. */
export async function send(photo, endpoint, settings, { signal, onchange }) {
  const marks = photo.marks.list();
  const set = (state) => { photo.states.set(endpoint, state); onchange(photo); };
  set({ kind: "busy", text: "working" });
  try {
    const reply = await call(endpoint.path, {
      method: "POST", body: await formOf(photo, endpoint, settings), headers: { "idempotency-key": uniqueKey() },
      signal: AbortSignal.any([signal, photo.removal.signal]),
      onwait: (seconds) => set({ kind: "busy", text: `waits ${seconds} s` }),
    });
    const blob = await reply.blob();
    const result = await resultOf(reply.headers, blob);
    // An address made now would never be revoked.
    if (photo.removal.signal.aborted) return;
    const old = photo.results.get(endpoint);
    if (old) URL.revokeObjectURL(old.url);
    photo.results.set(endpoint, { ...result, url: URL.createObjectURL(blob), split: old?.split, fingerprint: settings.fingerprint, marks });
    set(result.warnings.length ? { kind: "done warned", text: "check" } : { kind: "done", text: "done" });
  } catch (error) {
    set({ kind: "failed", text: error.name === "AbortError" ? "cancelled" : "failed", message: explain(error), error });
  }
}

/** What a run would add to the result of a photo: "all", other "settings", other "marks" or "nothing". */
export function missing(photo, endpoint, { fingerprint }) {
  const result = photo.results.get(endpoint);
  if (!result) return "all";
  if (result.fingerprint !== fingerprint) return "settings";
  return endpoint.takesMarks && !photo.marks.areStill(result.marks) ? "marks" : "nothing";
}

async function resultOf(headers, blob) {
  const uncertainty = headers.get("x-service-uncertainty");
  return {
    blob, headers, transparent: await hasTransparency(blob),
    width: Number(headers.get("x-service-width")), height: Number(headers.get("x-service-height")),
    uncertainty: uncertainty === null ? null : Number(uncertainty), words: headers.get("x-service-prompt-words"),
    // A list of strings (RFC 9651), which in brackets is JSON.
    warnings: JSON.parse(`[${headers.get("x-service-warnings") ?? ""}]`),
  };
}

/** Whether a picture, decoded or not, has pixels that are not opaque, by a small copy of it. */
async function hasTransparency(picture) {
  const image = await createImageBitmap(picture, { resizeWidth: 64, resizeHeight: 64 });
  const context = h("canvas", { width: 64, height: 64 }).getContext("2d");
  context.drawImage(image, 0, 0);
  image.close();
  return context.getImageData(0, 0, 64, 64).data.some((value, at) => at % 4 === 3 && value < 255);
}

/** Runs `work` for every item, a few at once. */
export async function forEach(items, work) {
  const waiting = [...items];
  const worker = async () => { while (waiting.length) await work(waiting.shift()); };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** A ZIP of the results of an endpoint. */
export async function archive(photos, endpoint) {
  const done = photos.filter((photo) => photo.results.has(endpoint));
  const entries = await Promise.all(done.map(async (photo) => {
    const result = photo.results.get(endpoint);
    return { name: fileName(photo, result, endpoint.path), bytes: new Uint8Array(await result.blob.arrayBuffer()) };
  }));
  return zip(entries);
}

/** The strip: a tile for each photo, progress and the ZIP. */
export function strip({ photos, current, endpoint, running, onselect, onremove, onadd, onzip, oncancel }) {
  const state = (photo) => photo.states.get(endpoint);
  const done = photos.filter((photo) => photo.results.has(endpoint)).length;
  const failed = photos.filter((photo) => state(photo)?.kind === "failed").length;
  const tiles = photos.map((photo) => {
    const { kind, text } = state(photo) ?? {};
    const source = photo.results.get(endpoint)?.url ?? (photo.shown ? photo.url : null);
    return h("li", {},
      h("button", { type: "button", class: "tile checkers", "aria-current": String(photo === current), "aria-label": `${photo.name}${text ? `, ${text}` : ""}`, onclick: () => onselect(photo) },
        source ? h("img", { src: source, alt: "" }) : h("span", { class: "file-name" }, photo.name),
        text ? h("span", { class: `state ${kind}` }, text) : null),
      h("button", { type: "button", class: "remove", "aria-label": `Take ${photo.name} off the page`, onclick: () => onremove(photo) }, "×"));
  });
  const many = photos.length > 1;
  return h("section", { "aria-label": "Photos" },
    h("div", { class: "toolbar" },
      many ? h("span", { class: "small-text muted" }, `${done} of ${photos.length} done${failed ? `, ${failed} failed` : ""}`) : null,
      h("span", { class: "spring" }),
      running ? h("button", { type: "button", class: "button small", onclick: oncancel }, "Cancel") : null,
      many && done ? h("button", { type: "button", class: "button small", "data-act": "zip", disabled: running, onclick: onzip }, h("span", { class: "spare" }, "Download all as "), "ZIP") : null,
      h("button", { type: "button", class: "button small", onclick: onadd }, "Add photos")),
    many && running ? h("progress", { max: photos.length, value: done + failed, "aria-label": "Photos done" }) : null,
    h("ul", { class: "strip-grid" }, tiles));
}
