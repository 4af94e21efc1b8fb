// The page: purposes, tabs of endpoints, photos and clips, settings, and what runs.

import { callJson, currentKey, explain, useKey } from "./api.js";
import * as account from "./account.js";
import { clipPanel } from "./clips.js";
import { daemon, load } from "./contract.js";
import { control, isFrequent, isPicture, isTrue, PICTURES } from "./controls.js";
import { announce, dollars, find, h, marked, save } from "./dom.js";
import { editor } from "./editor.js";
import { archive, forEach, forget, missing, preview, readPhoto, send, strip } from "./photos.js";
import { Presets, presetsPanel } from "./presets.js";
import { requestPanel } from "./request.js";
import { isAligned, viewer } from "./viewer.js";

const SAMPLES = [["astronaut.jpg", "An astronaut beside a model of the shuttle"], ["cat.jpg", "A cat"], ["cup.jpg", "A cup of coffee"]];
/** Fields that change the mask before matting. */
const MASK_FIELDS = ["detect", "engine", "segmentation_model", "keep_alpha"];

const page = {
  /** `endpoint` is one of the contract or a purpose; `own`, the last one of the contract. */
  contract: null, endpoint: null, own: null, form: null, forms: new Map(), request: null, presets: new Presets(),
  photos: [], current: null, clip: null, clipPanel: null, clipRuns: false, editing: false, running: null, pending: [], preview: null,
};

async function begin() {
  // Before an endpoint is chosen, which changes the address.
  const key = keyOfLink();
  try {
    page.contract = await load();
  } catch (error) {
    return report(`The page cannot start: ${error.message}.`);
  }
  [page.own] = page.contract.endpoints;
  drawPurposes();
  drawTabs();
  drawSamples();
  listen();
  choose(endpointOfAddress() ?? page.contract.purposes[0]);
  await takeKey(key);
  await signIn();
}

/** `#key=…`, as printed by `make serve`: taken out of the address. */
function keyOfLink() {
  const found = /^#key=(.+)$/.exec(location.hash);
  if (found) history.replaceState(null, "", location.pathname);
  return found?.[1];
}

/** Keeps the key of a link in the tab if the person agrees: a link of someone else must not have photos sent to another account silently. */
async function takeKey(encoded) {
  if (!encoded) return;
  try {
    const given = decodeURIComponent(encoded);
    if (given === currentKey()) return;
    const { account: name } = await account.of(given);
    if (confirm(`This link has an API key of the account "${name}". Use it${currentKey() ? " in place of your key" : ""}? Your photos are sent and billed to that account.`)) useKey(given);
  } catch (error) {
    report(error instanceof URIError || error.code === "invalid_key" || error.status === 401 ? "The key in this link is not valid." : explain(error));
  }
}

/** The part of the page's address after `#`. */
const addressOf = ({ id, path }) => `#${id ?? path}`;
const endpointOfAddress = () => [...page.contract.purposes, ...page.contract.endpoints].find((one) => addressOf(one) === location.hash);

/** Loads the account of the key. */
async function signIn() {
  try {
    if (await account.refresh()) await loadPresets();
  } catch (error) {
    report(explain(error));
  }
  drawCost();
}

async function loadPresets() {
  // A key may be restricted to endpoints without presets.
  await page.presets.load().catch(() => {});
  drawPresets();
}

/** Whether there is a key; asks for one otherwise. */
async function hasKey(message) {
  if (currentKey()) return true;
  const given = await account.openDialog(message);
  if (given) {
    report("");
    await loadPresets();
    drawCost();
  }
  return given;
}

function report(text) {
  const problem = find("problem");
  problem.hidden = !text;
  problem.textContent = text;
}

// Purposes and tabs

function drawPurposes() {
  const own = { id: "own", title: "Own", about: "all tools and settings" };
  find("purpose-about").before(...[...page.contract.purposes, own].map((one) => h("label", {},
    h("input", { type: "radio", name: "purpose", value: one.id, onchange: () => choose(one === own ? page.own : one) }),
    h("b", { id: `purpose-${one.id}` }, one.title), h("span", { class: "small-text spare" }, one.about))));
}

function drawTabs() {
  find("tabs").replaceChildren(...page.contract.endpoints.map((endpoint) => h("button", {
    type: "button", role: "tab", id: `tab-${endpoint.operation}`, "aria-controls": "work", "data-path": endpoint.path, onclick: () => choose(endpoint),
  }, endpoint.title)));
  find("tabs").addEventListener("keydown", (event) => {
    const all = page.contract.endpoints;
    const at = all.indexOf(page.own);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(all[(to + all.length) % all.length]);
    find(`tab-${page.endpoint.operation}`).focus();
  });
}

function choose(endpoint) {
  if (page.endpoint === endpoint) return;
  page.endpoint = endpoint;
  page.editing = false;
  history.replaceState(null, "", addressOf(endpoint));
  if (!endpoint.id) page.own = endpoint;
  for (const input of find("purposes").querySelectorAll("input")) input.checked = input.value === (endpoint.id ?? "own");
  find("purpose-about").textContent = endpoint.id ? `Result: ${endpoint.about}.` : "";
  find("tabs").hidden = Boolean(endpoint.id);
  for (const tab of find("tabs").children) {
    const selected = tab.dataset.path === page.own.path;
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
    if (selected) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  find("work").setAttribute("aria-labelledby", endpoint.id ? `purpose-${endpoint.id}` : `tab-${endpoint.operation}`);
  find("about").replaceChildren(...marked(endpoint.id ? "" : endpoint.summary));
  drawSettings();
  drawPresets();
  draw();
  drawCost();
}

// Settings

/** The settings of an endpoint, which stay as they are while another tab is open: controls, the chosen preset, and what is shown. */
function newForm(endpoint) {
  const controls = endpoint.fields.map((field) => control(field, onSetting));
  const [often, seldom] = [true, false].map((frequent) => controls.filter(({ field }) => isFrequent(field, endpoint) === frequent).map(({ element }) => element));
  const more = seldom.length ? [h("details", {}, h("summary", {}, "More settings"), h("div", { class: "more-fields" }, seldom))] : [];
  const reset = h("button", { type: "button", class: "button small", "data-act": "reset", onclick: () => usePreset(page.form.preset) }, "Reset settings");
  const form = { controls, preset: null, elements: [...often, ...more, h("div", { class: "actions" }, reset)] };
  setAll(form, endpoint, null);
  return form;
}

/** Sets all controls to the values of a preset, else to the contract's defaults and the values of a purpose. */
function setAll(form, { values = {} }, preset) {
  form.preset = preset;
  for (const one of form.controls) {
    const { name } = one.field;
    one.base(preset?.params[name]);
    if (!preset && (values[name] ?? null) !== null) one.set(values[name]);
  }
}

function drawSettings() {
  const { endpoint, forms } = page;
  if (!forms.has(endpoint)) forms.set(endpoint, newForm(endpoint));
  page.form = forms.get(endpoint);
  find("settings").replaceChildren(...page.form.elements);
  page.request = requestPanel(describe);
  find("request").replaceChildren(page.request.element);
}

function onSetting() {
  page.request.refresh();
  drawRun();
  drawCost();
}

/** What holds where nothing is sent: the values of the chosen preset, as pairs, less those whose control was cleared. One without an
 *  endpoint may have values that this endpoint does not take. */
function presetValues() {
  const { controls, preset } = page.form;
  const cleared = controls.filter((one) => one.isCleared()).map(({ field }) => field.name);
  return Object.entries(preset?.params ?? {}).filter(([name]) => page.endpoint.names.includes(name) && !cleared.includes(name));
}

/** The settings as values of a preset. */
const params = () => Object.fromEntries([...presetValues(), ...settings().fields].filter(([name]) => name !== "preset"));

/** The settings to send, as pairs, files apart; and a text that differs where they do. */
function settings() {
  const { controls, preset } = page.form;
  const values = controls.map(({ field, value }) => [field.name, value()]).filter(([, value]) => value !== undefined);
  const isFile = ([, value]) => value instanceof File;
  const files = values.filter(isFile);
  const fields = values.filter((pair) => !isFile(pair));
  // A request cannot take back a value of its preset: without one that was cleared, the others are sent in the preset's place.
  const isCleared = controls.some((one) => one.isCleared() && preset?.params[one.field.name] !== undefined);
  if (isCleared) {
    // A mode of the preset without a mask is not used, but refused where it is sent.
    const kept = presetValues().filter(([name]) => name !== "mask_mode" && !values.some(([sent]) => sent === name));
    fields.unshift(...kept.map(([name, value]) => [name, [value].flat().join(";")]));
  } else if (preset) fields.unshift(["preset", preset.id]);
  const fingerprint = JSON.stringify([fields, files.map(([name, file]) => [name, file.name, file.size, file.lastModified])]);
  return { fields, files, fingerprint };
}

const allValid = () => page.form.controls.every((one) => one.valid());

/** The name of the format in which the result comes. */
function formatOf(endpoint, { fields, files }) {
  const values = Object.fromEntries([...presetValues(), ...fields, ...files]);
  const usual = values.bg_file || values.bg_url ? "jpg" : endpoint.fields.find(({ name }) => name === "format")?.default;
  const format = values.format ?? usual ?? "png";
  return format === "jpg" && isTrue(values.transparent) ? "png" : format;
}

/** The request as it is sent now, for the program to copy. */
function describe() {
  const { endpoint, current } = page;
  const sent = settings();
  const marks = endpoint.takesMarks ? current?.marks : null;
  const strokes = marks?.hasStrokes ? () => marks.mask(current.width, current.height) : null;
  const files = sent.files.map(([name, file]) => [name, file.name]);
  if (strokes) files.push(["mask_file", "strokes.png"]);
  const source = endpoint.makesJob ? page.clip?.name ?? "clip.mp4" : current?.name ?? "photo.jpg";
  return {
    url: new URL(endpoint.path.slice(1), document.baseURI).href,
    fields: [...sent.fields, ...(marks?.fields() ?? [])], files: [...files, ["file", source]],
    output: `result.${formatOf(endpoint, sent)}`, json: endpoint.makesJob, strokes,
  };
}

function usePreset(preset) {
  setAll(page.form, page.endpoint, preset);
  onSetting();
  drawPresets();
}

function drawPresets() {
  const { endpoint, presets, form: { preset } } = page;
  const place = find("presets");
  const wasOpen = place.querySelector("details")?.open ?? false;
  const hadFocus = place.contains(document.activeElement);
  place.replaceChildren();
  if (!endpoint.takesPreset || !account.account) return;
  // The key is now that of another account, or the preset was deleted in another tab.
  if (preset && !presets.list.some(({ id }) => id === preset.id)) return usePreset(null);
  const panel = presetsPanel({ presets, endpoint, chosen: preset, params, onchoose: usePreset, onchange: drawPresets });
  panel.open = wasOpen || Boolean(preset);
  place.append(panel);
  if (hadFocus) panel.querySelector("select").focus();
}

// Cost: what the next run would be billed, from `/estimate`

let costTimer = 0;
function drawCost() {
  clearTimeout(costTimer);
  costTimer = setTimeout(async () => {
    const { endpoint } = page;
    if (!account.account || !daemon.show_prices) return showCost("");
    const values = Object.fromEntries(page.form.controls.map(({ field, value }) => [field.name, value() ?? field.default]));
    const asked = { endpoint: endpoint.path };
    for (const name of page.contract.estimateFields) if (values[name] !== undefined) asked[name] = Number(values[name]);
    try {
      const { unit_price_usd: price, unit } = await callJson("/estimate", { method: "POST", json: asked });
      if (endpoint === page.endpoint) showCost(account.account.plan === "free" ? "Uses your free images of this month." : price ? `${dollars(price)} per ${unit}` : "Not billed.");
    } catch {
      showCost("");
    }
  }, 300);
}

function showCost(text) {
  find("cost").textContent = text;
}

// Photos and clips

function drawSamples() {
  find("samples").querySelector(".samples").replaceChildren(...SAMPLES.map(([name, about]) => h("button", {
    type: "button", "aria-label": about, onclick: async () => {
      const blob = await (await fetch(`assets/${name}`)).blob();
      await add([new File([blob], name, { type: blob.type })]);
    },
  }, h("img", { src: `assets/${name}`, alt: "" }))));
}

function listen() {
  const input = find("files");
  const pick = () => { input.accept = page.endpoint.makesJob ? "video/*,image/gif" : PICTURES; input.multiple = !page.endpoint.makesJob; input.click(); };
  page.pick = pick;
  find("choose").addEventListener("click", pick);
  input.addEventListener("change", () => { add([...input.files]); input.value = ""; });
  find("account-button").addEventListener("click", async () => {
    report("");
    await account.openDialog();
    if (account.account) await loadPresets();
    else drawPresets();
    drawCost();
  });
  find("run").addEventListener("click", run);
  find("settings").addEventListener("submit", (event) => { event.preventDefault(); run(); });
  window.addEventListener("hashchange", async () => {
    if (location.hash.startsWith("#key=")) {
      await takeKey(keyOfLink());
      await signIn();
    }
    // The link that skips to the picture changes the address too.
    choose(endpointOfAddress() ?? page.endpoint);
  });
  window.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) { event.preventDefault(); add(files); }
  });
  let depth = 0;
  const drag = (inside) => document.body.classList.toggle("dragging", inside);
  window.addEventListener("dragenter", (event) => { event.preventDefault(); depth += 1; drag(true); });
  window.addEventListener("dragleave", () => { depth -= 1; drag(depth > 0); });
  window.addEventListener("dragover", (event) => event.preventDefault());
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    drag(false);
    add([...event.dataTransfer.files]);
  });
}

const isClip = (file) => file.type.startsWith("video/") || /\.(mp4|mov|webm|mkv)$/i.test(file.name);

async function add(files) {
  const others = files.filter((file) => !isPicture(file) && !isClip(file)).map((file) => file.name);
  report(others.length ? `${others.join(", ")}: neither a picture nor a clip.` : "");
  const clip = files.find((file) => isClip(file) || (page.endpoint.makesJob && file.type === "image/gif"));
  const job = page.contract.endpoints.find((endpoint) => endpoint.makesJob);
  if (clip && job) {
    choose(job);
    return takeClip(clip);
  }
  const pictures = files.filter(isPicture);
  if (!pictures.length) return;
  if (page.endpoint.makesJob) choose(page.contract.purposes[0]);
  const photos = [];
  await forEach(pictures.entries(), async ([at, file]) => { photos[at] = await readPhoto(file); });
  page.photos.push(...photos);
  page.current = photos[0];
  page.editing = false;
  announce(photos.length > 1 ? `${photos.length} photos added.` : `${photos[0].name} added.`);
  const hadFocus = find("drop").contains(document.activeElement);
  draw();
  page.request.refresh();
  if (hadFocus) find("run").focus();
  if (!find("auto").checked) return;
  // A tab that needs words waits for them.
  const isComplete = page.form.controls.every(({ field, value }) => !field.required || value() !== undefined);
  if (isComplete && (await hasKey("Enter a key to go on with your photo."))) await runAll(photos);
}

function takeClip(file) {
  if (page.clip) URL.revokeObjectURL(page.clip.url);
  page.clipPanel?.abort();
  page.clip = { file, name: file.name, url: URL.createObjectURL(file) };
  page.clipPanel = clipPanel({
    clip: page.clip, endpoint: page.endpoint,
    onchange: (isRunning) => { page.clipRuns = isRunning; drawRun(); },
    onend: () => account.refresh().catch(() => {}),
    onother: page.pick,
  });
  page.request.refresh();
  draw();
}

// What runs

async function run() {
  report("");
  if (!allValid() || !(await hasKey(""))) return;
  if (page.endpoint.makesJob) return page.clipPanel?.start(settings().fields);
  page.editing = false;
  await runAll(nextRun().photos);
}

/** What the button runs, and its title. A photo is not sent again (and billed) for the result that it has, unless all have theirs. */
function nextRun() {
  const { endpoint, photos } = page;
  const sent = settings();
  const { all, settings: changed, marks, nothing = [] } = Object.groupBy(photos, (photo) => missing(photo, endpoint, sent));
  if (changed) return { title: "Apply settings", photos: photos.filter((photo) => !nothing.includes(photo)) };
  if (marks) return { title: "Apply marks", photos: marks };
  return all || !nothing.length ? { title: "Start", photos: all ?? [] } : { title: "Start again", photos };
}

async function runAll(photos) {
  if (!allValid()) return;
  if (page.running) {
    page.pending.push(...photos);
    return;
  }
  const { endpoint } = page;
  const stop = new AbortController();
  const sent = settings();
  page.running = stop;
  for (const photo of photos) photo.states.set(endpoint, { kind: "busy", text: "waits" });
  draw();
  await forEach(photos, async (photo) => {
    if (stop.signal.aborted) photo.states.set(endpoint, { kind: "failed", text: "cancelled" });
    else await send(photo, endpoint, sent, { signal: stop.signal, onchange: drawProgress });
  });
  page.running = null;
  drawProgress(page.current);
  const kept = photos.filter((photo) => page.photos.includes(photo));
  const failed = kept.filter((photo) => photo.states.get(endpoint)?.kind === "failed");
  announce(failed.length ? `${failed.length} of ${kept.length} failed.` : "Done.");
  if (failed.some((photo) => photo.states.get(endpoint).error?.status === 401)) await signIn();
  else await account.refresh().catch(() => {});
  const next = page.pending.splice(0).filter((photo) => page.photos.includes(photo));
  if (next.length && !stop.signal.aborted) await runAll(next);
}

/** Shows what the marks of the current photo do, if requests may start without a button. `show` takes the new tint. */
async function runPreview(show) {
  page.preview?.abort();
  if (!find("auto").checked || !currentKey()) return;
  page.preview = new AbortController();
  const { signal } = page.preview;
  try {
    const tint = await preview(page.current, Object.entries(params()).filter(([name]) => MASK_FIELDS.includes(name)), signal);
    if (!signal.aborted) show(tint);
  } catch (error) {
    // Other failures leave the last tint.
    if ([401, 402, 403].includes(error.status)) report(explain(error));
  }
  if (!signal.aborted) await account.refresh().catch(() => {});
}

// Drawing

function drawRun() {
  const { endpoint, clip } = page;
  const running = endpoint.makesJob ? page.clipRuns : page.running;
  const { title, photos } = endpoint.makesJob ? { title: "Start", photos: clip ? [clip] : [] } : nextRun();
  const button = find("run");
  button.disabled = !photos.length || Boolean(running);
  button.classList.toggle("primary", title !== "Start again");
  button.textContent = running ? "Working…" : photos.length > 1 ? `${title}: ${photos.length} photos` : title;
}

function draw() {
  const { endpoint, photos, clip } = page;
  const empty = endpoint.makesJob ? !clip : !photos.length;
  find("drop").hidden = !empty;
  const verb = matchMedia("(hover: none)").matches ? "Choose" : "Drop";
  find("drop-title").textContent = `${verb} a ${endpoint.makesJob ? "clip" : "photo"}${verb === "Drop" ? " here" : ""}`;
  // Photos beyond the limits are made smaller.
  find("drop-about").textContent = endpoint.input.split(endpoint.makesJob ? ". " : ";")[0];
  find("choose").textContent = endpoint.makesJob ? "Choose a clip" : "Choose photos";
  find("samples").hidden = endpoint.makesJob;
  find("stage").hidden = empty;
  find("strip").hidden = empty || endpoint.makesJob;
  drawRun();
  if (empty) return;
  if (endpoint.makesJob) {
    if (find("stage").firstChild !== page.clipPanel.element) find("stage").replaceChildren(page.clipPanel.element);
    return;
  }
  drawStage();
  drawStrip();
}

/** A photo has another state. What is done to another photo meanwhile, or to the marks of this one, goes on. */
function drawProgress(photo) {
  drawRun();
  if (page.endpoint.makesJob || !page.photos.length) return;
  if (photo === page.current && !page.editing) drawStage();
  drawStrip();
}

function drawStrip() {
  const { endpoint, photos, current, running } = page;
  const focused = document.activeElement?.closest("#strip") ? [...find("strip").querySelectorAll("button")].indexOf(document.activeElement) : -1;
  find("strip").replaceChildren(strip({
    photos, current, endpoint, running: Boolean(running),
    onselect: (photo) => { page.current = photo; page.editing = false; page.request.refresh(); draw(); },
    onremove: (photo) => {
      forget(photo);
      page.photos.splice(page.photos.indexOf(photo), 1);
      if (page.current === photo) page.current = page.photos[0] ?? null;
      page.request.refresh();
      draw();
    },
    onadd: page.pick,
    onzip: async () => {
      try {
        save(await archive(photos, endpoint), "backdrop.zip");
      } catch (error) {
        report(`The ZIP cannot be made: ${error.message}.`);
      }
    },
    oncancel: () => page.running?.abort(),
  }));
  if (focused >= 0) find("strip").querySelectorAll("button")[focused]?.focus();
}

function drawStage() {
  page.preview?.abort();
  const { endpoint, current, editing } = page;
  const state = current.states.get(endpoint);
  const result = current.results.get(endpoint);
  const mode = (name, title, on) => h("button", { type: "button", "data-mode": name, "aria-pressed": String(editing === on), onclick: () => { page.editing = on; drawStage(); find("stage").querySelector(`[data-mode=${name}]`).focus(); } }, title);
  const modes = endpoint.takesMarks && current.shown
    ? h("div", { class: "choice modes", role: "group", "aria-label": "Mode" }, mode("view", "View", false), mode("mark", ["Mark", h("span", { class: "spare" }, " the subject")], true)) : null;
  if (editing) {
    const under = result?.transparent && isAligned(current, result, endpoint) ? result : null;
    find("stage").replaceChildren(editor({ photo: current, result: under, modes, onchange: (show) => { page.request.refresh(); drawRun(); runPreview(show); } }));
    return;
  }
  const view = viewer({ photo: current, result, endpoint, modes, busy: state?.kind === "busy", message: state?.kind === "failed" ? state.message : null });
  find("stage").replaceChildren(view);
}

begin();
