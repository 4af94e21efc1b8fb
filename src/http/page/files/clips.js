// A clip: uploaded with progress, cut out as a job that is polled, and played or downloaded when it is done.

import { call, callJson, currentKey, explain, uniqueKey, upload, wait } from "./api.js";
import { announce, bytes, h, warning } from "./dom.js";

const PLAYED = new Set(["webm", "mp4"]);
const SHOWN = new Set(["gif", "webp"]);
const POLL_MS = 1500;
/** Failures of a poll in a row that are tried again, about four minutes: a daemon restarts, a laptop wakes up. */
const POLL_FAILURES = 12;
const LONGEST_PAUSE_MS = 30_000;

/** The panel of a clip; `start(fields)` makes its job, `abort()` ends it. `onend` runs when the job is over. */
export function clipPanel({ clip, endpoint, onchange, onend, onother }) {
  const bar = h("progress", { max: 100, value: 0, "aria-label": "Progress", hidden: true });
  const text = h("p", { class: "muted", role: "status" }, "Choose the settings, then start.");
  const cancel = h("button", { type: "button", class: "button small", hidden: true }, "Cancel");
  const result = h("div", { class: "stage" });
  const other = h("button", { type: "button", class: "button small", onclick: onother }, "Another clip");
  const source = h("video", { src: clip.url, controls: true, muted: true, playsinline: true, "aria-label": `The clip ${clip.name}` });
  const element = h("div", { class: "stage" },
    h("div", { class: "canvas" }, h("div", { class: "frame" }, source)),
    h("div", { class: "toolbar" }, text, h("span", { class: "spring" }), cancel, other), bar, result);
  let stop = null;
  /** The last start, until the end of its job is known. With the same fields the next one goes on with its job, or repeats its upload under the same idempotency key, so that the clip is billed once. */
  let attempt = null;

  async function poll(id, signal) {
    for (let failures = 0; ; failures += 1) {
      try {
        return await callJson(`/jobs/${id}`, { signal });
      } catch (error) {
        const isTransient = error instanceof TypeError || error.status >= 500;
        if (!isTransient || failures === POLL_FAILURES) throw error;
      }
      text.textContent = "No connection; trying again";
      await wait(Math.min(POLL_MS * 2 ** failures, LONGEST_PAUSE_MS), signal);
    }
  }

  async function submit(fields, key, signal) {
    const form = new FormData();
    for (const [name, value] of fields) form.append(name, value);
    form.append("file", clip.file, clip.name);
    const onprogress = (share) => { bar.value = share * 100; text.textContent = `Uploading, ${Math.round(share * 100)} %`; };
    const job = await upload(endpoint.path, form, { signal, onprogress, headers: { "idempotency-key": key } });
    announce("The clip is uploaded.");
    return job;
  }

  async function start(fields) {
    stop = new AbortController();
    const { signal } = stop;
    const settings = JSON.stringify([currentKey(), fields]);
    if (attempt?.settings !== settings) attempt = { settings, key: uniqueKey(), job: null };
    const own = attempt;
    result.replaceChildren();
    bar.value = 0;
    bar.hidden = cancel.hidden = false;
    other.hidden = true;
    onchange(true);
    try {
      own.job ??= await submit(fields, own.key, signal);
      let { job } = own;
      while (job.status === "queued" || job.status === "processing") {
        bar.value = job.progress;
        text.textContent = job.status === "queued" ? "In the queue" : `Cutting out, ${job.progress} %`;
        await wait(POLL_MS, signal);
        job = await poll(job.job_id, signal);
      }
      attempt = null;
      if (job.status === "error") throw Object.assign(new Error(job.error.message), { job: true });
      bar.value = 100;
      text.textContent = `Done: ${job.output_seconds} s, ${bytes(job.size_bytes)}.`;
      announce("The clip is done.");
      result.replaceChildren(...shown(job, clip));
    } catch (error) {
      // Refused: there is no job to go on with.
      if (error.status < 500) attempt = null;
      text.textContent = error.job ? error.message : explain(error);
    }
    bar.hidden = cancel.hidden = true;
    other.hidden = false;
    onchange(false);
    onend();
  }

  async function abort() {
    stop?.abort();
    const job = attempt?.job;
    if (!job) return;
    attempt = null;
    await call(`/jobs/${job.job_id}`, { method: "DELETE" }).catch(() => {});
  }

  cancel.addEventListener("click", abort);
  return { element, start, abort };
}

/** Results that this daemon keeps are under its own address, whatever public name it has. An object store may have a folder `results` too, and signs otherwise. */
function addressOf(job) {
  const url = new URL(job.result_url, document.baseURI);
  const at = url.pathname.indexOf("/results/");
  const isOwn = at >= 0 && ["expires", "signature"].every((name) => url.searchParams.has(name));
  return isOwn ? url.pathname.slice(at + 1) + url.search : job.result_url;
}

function shown(job, clip) {
  const address = addressOf(job);
  const name = `${clip.name.replace(/\.[^.]+$/, "")}-cutout.${job.format === "png_sequence" ? "zip" : job.format}`;
  // Pages show nothing of other servers (content policy); a result in an object store is downloaded.
  const isHere = new URL(address, document.baseURI).origin === location.origin;
  const media = !isHere ? null : PLAYED.has(job.format)
    ? h("video", { src: address, controls: true, loop: true, muted: true, autoplay: true, playsinline: true, class: "checkers", "aria-label": "The result" })
    : SHOWN.has(job.format) ? h("img", { src: address, alt: "The result", class: "checkers" }) : null;
  return [
    ...(job.warnings ?? []).map(warning),
    media ? h("div", { class: "canvas" }, h("div", { class: "frame" }, media)) : null,
    h("p", { class: "toolbar" }, h("span", { class: "spring" }), h("a", { class: "button primary", href: address, download: name }, `Download ${job.format}`)),
  ].filter(Boolean);
}
