// The page and the reference in a real browser: Debian's Chromium by playwright-core, accessibility by axe-core.
//
//     node tests/page/run.mjs target/release/backdrop TOOLS [--update]
//
// TOOLS is the folder in which both packages are installed. `--update` also writes the screenshots of docs/page. Each test has
// a tab of its own (`ONLY=words` selects some by name; `FILES=src/http/page/files` serves files of the page from there, without a build); a request to another origin, an error in the console or a violation of the content policy fails it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { chromium, load } from "./browser.mjs";
import { start } from "./daemon.mjs";

const [, , binary, tools, option] = process.argv;
const path = (name) => fileURLToPath(new URL(`../../${name}`, import.meta.url));
const ASTRONAUT = path("tests/photos/astronaut.jpg");
const CAT = path("tests/photos/chelsea.png");
const CUP = path("tests/photos/coffee.jpg");
/** Stops a test that hangs; nothing is compared with the clock. */
const LONG = { timeout: 60_000 };

const daemon = await start(binary);
const browser = await chromium(tools);
const axe = load(tools, "axe-core").source;
const tests = [];
const test = (name, work, options = {}) => tests.push({ name, work, options });

/** Chooses the tab of an endpoint. */
async function tab(page, path) {
  await page.check("#purposes [value=own]");
  await page.click(`.tabs [data-path="${path}"]`);
}

/** Opens the page with the key in its address, as `make serve` prints it, and switches the automatic start on. */
async function open(page, hash = "") {
  const accept = (dialog) => dialog.accept();
  page.on("dialog", accept);
  await page.goto(`${daemon.url}/#key=${daemon.key}`);
  await page.waitForFunction(() => document.getElementById("account-button").textContent.startsWith("Key"), null, LONG);
  page.off("dialog", accept);
  await page.check("#auto");
  if (hash) await tab(page, hash);
}

/** Waits for the end of what runs. */
async function idle(page) {
  await page.waitForFunction(() => document.getElementById("run").textContent !== "Working…" && !document.querySelector(".busy"), null, LONG);
  const failure = await page.locator("#stage .note.bad").allTextContents();
  assert.deepEqual(failure, []);
}

/** Adds photos and waits until they are processed. */
async function add(page, ...files) {
  // The tiles of the last photo that was taken off stay in the hidden strip.
  const tiles = "#strip:not([hidden]) .tile";
  const before = await page.locator(tiles).count();
  await page.setInputFiles("#files", files);
  await page.waitForFunction(([selector, count]) => document.querySelectorAll(selector).length === count, [tiles, before + files.length], LONG);
  await page.waitForSelector("#stage .result, #stage .frame", LONG);
  await idle(page);
}

async function run(page) {
  await page.click("#run");
  await idle(page);
}

/** Marks the subject of the photo that is shown. */
async function mark(page) {
  await page.click("[data-mode=mark]");
  await page.click("[data-tool=keep]");
  await drag(page, [0.75, 0.75], [0.8, 0.9]);
}

/** The paths of what the page posts from now on, without estimates of the cost. */
function posted(page) {
  const paths = [];
  page.on("request", (request) => { if (request.method() === "POST" && !request.url().endsWith("/estimate")) paths.push(new URL(request.url()).pathname); });
  return paths;
}

/** Calls the service without the page. */
async function api(method, name, json) {
  const reply = await fetch(daemon.url + name, { method, headers: { authorization: `Bearer ${daemon.key}`, "content-type": "application/json" }, body: JSON.stringify(json) });
  return reply.json();
}

/** Serves a file of the folder `FILES`, which is newer than the program. */
async function serveFile(route) {
  const name = new URL(route.request().url()).pathname.split("/").at(-1) || "index.html";
  const file = join(process.env.FILES, name);
  await (existsSync(file) ? route.fulfill({ path: file }) : route.continue());
}

const program = (page) => page.textContent("#request code");
const title = (page) => page.textContent("#run");

/** SHA-256 of the pixels of the result that is shown. */
async function result(page) {
  await page.waitForSelector("#stage .result", LONG);
  return page.evaluate(async () => {
    const image = document.querySelector("#stage .result");
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: image.naturalWidth, height: image.naturalHeight });
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    return [...new Uint8Array(await crypto.subtle.digest("SHA-256", data))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  });
}

/** A clip of so many frames, six a second. */
function clip(name, frames) {
  const file = join(daemon.folder, name);
  execFileSync("ffmpeg", ["-loglevel", "error", "-y", "-loop", "1", "-i", CAT, "-vf", "scale=240:160,format=yuv420p", "-r", "6", "-frames:v", String(frames), file]);
  return file;
}

/** The file that a click on `selector` saves: its name and bytes. */
async function saved(page, selector) {
  const [download] = await Promise.all([page.waitForEvent("download", LONG), page.click(selector)]);
  return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

/** Drags over the editor; places are shares of its width and height. */
async function drag(page, from, to) {
  await page.locator("canvas.marks").scrollIntoViewIfNeeded();
  const { x, y, width, height } = await page.locator("canvas.marks").boundingBox();
  const at = ([left, top]) => [x + width * left, y + height * top];
  await page.mouse.move(...at(from));
  await page.mouse.down();
  await page.mouse.move(...at([(from[0] + to[0]) / 2, (from[1] + to[1]) / 2]));
  await page.mouse.move(...at(to));
  await page.mouse.up();
}

/** Serious and critical findings of axe on the page as it is now, as one line each. */
async function findings(page) {
  // The policy of the page allows no script of others; the protocol of the browser may run one all the same.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return grave.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
}

const width = (page) => page.evaluate(() => document.documentElement.scrollWidth);
const unfold = (page) => page.evaluate(() => { for (const one of document.querySelectorAll("details")) one.open = true; });

test("every tab makes a picture, from controls of the contract", async (page) => {
  await open(page);
  const contract = await (await fetch(`${daemon.url}/openapi.json`)).json();
  const tabs = await page.locator(".tabs [role=tab]").evaluateAll((all) => all.map((tab) => tab.dataset.path));
  const form = (item) => item.post?.requestBody?.content?.["multipart/form-data"]?.schema.$ref.split("/").at(-1);
  const expected = Object.entries(contract.paths).filter(([, item]) => contract.components.schemas[form(item)]?.required?.includes("file"));
  assert.deepEqual([...tabs].sort(), expected.map(([name]) => name).sort());
  await add(page, CAT);
  const seen = new Set();
  for (const one of tabs.filter((name) => name !== "/video/remove")) {
    await tab(page, one);
    const names = await page.locator("#settings .field").count();
    assert.ok(names > 5, `${one}: ${names} controls`);
    if (one === "/headshot" || one === "/face-restore") continue;
    if (one === "/replace-bg-ai") await page.fill("#field-prompt", "a marble counter");
    await run(page);
    seen.add(await result(page));
  }
  // The cat has no face; the astronaut has.
  await page.click(".strip-grid .remove");
  await tab(page, "/headshot");
  await add(page, ASTRONAUT);
  seen.add(await result(page));
  await tab(page, "/face-restore");
  await run(page);
  seen.add(await result(page));
  assert.equal(seen.size, tabs.length - 1, "each is another picture");
});

/** The size of the result that is shown, and the darkest value of a border around it, a share of its width wide. */
const border = (page, share) => page.evaluate(async (part) => {
  const image = document.querySelector("#stage .result");
  await image.decode();
  const { naturalWidth: width, naturalHeight: height } = image;
  const context = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d");
  context.drawImage(image, 0, 0);
  const wide = Math.floor(width * part);
  const strips = [[0, 0, width, wide], [0, height - wide, width, wide], [0, 0, wide, height], [width - wide, 0, wide, height]];
  return { width, height, darkest: Math.min(...strips.map((strip) => context.getImageData(...strip).data.reduce((one, other) => Math.min(one, other)))) };
}, share);

test("a shop owner makes a white square of 1200 pixels in one pass", async (page) => {
  const paths = posted(page);
  await page.goto(daemon.url);
  await page.check("#purposes [value=marketplace]");
  await page.setInputFiles("#files", CUP);
  await page.waitForSelector("#stage .frame", LONG);
  assert.equal(await title(page), "Start");
  assert.deepEqual(paths, [], "photos wait");
  await page.click("#run");
  await page.fill("#key", daemon.key);
  await page.keyboard.press("Enter");
  await result(page);
  await idle(page);
  assert.deepEqual(paths, ["/studio-shot"]);
  assert.deepEqual(await border(page, 0.09), { width: 1200, height: 1200, darkest: 255 });
  const { name, bytes } = await saved(page, "[data-act=download]");
  assert.equal(name, "coffee-studio-shot.jpg");
  assert.deepEqual([...bytes.subarray(0, 2)], [0xff, 0xd8], "JPEG");
  // The other purposes have settings and results of their own.
  await page.check("#purposes [value=studio]");
  assert.equal(await title(page), "Start");
  await run(page);
  assert.ok((await border(page, 0.09)).darkest < 255, "a shadow");
  await page.check("#purposes [value=passport]");
  assert.match(await program(page), /aspect=35:45[^]*width=827/);
  await page.check("#purposes [value=marketplace]");
  assert.equal(await title(page), "Start again");
  await page.fill("#field-width", "800");
  await page.click("[data-act=reset]");
  assert.equal(await page.inputValue("#field-width"), "1200");
  // A link leads to a purpose.
  await page.goto(`${daemon.url}/#passport`);
  await page.waitForSelector("#purposes [value=passport]:checked", LONG);
});

test("a photo beyond the limits is made smaller, and the page says so", async (page) => {
  const make = (name, ...filter) => {
    const file = join(daemon.folder, name);
    execFileSync("ffmpeg", ["-loglevel", "error", "-y", ...filter, "-frames:v", "1", file]);
    return file;
  };
  await open(page);
  await add(page, make("large.jpg", "-i", CAT, "-vf", "scale=6000:4000"));
  assert.match(await page.textContent("#stage .note"), /4096 × 2730 in place of 6000 × 4000 pixels/);
  assert.match(await page.textContent(".facts"), /4096 × 2730/);
  assert.equal(await page.locator("#stage .slider").count(), 1, "before and after fit");
  // Few pixels and many bytes, opaque and not.
  await page.uncheck("#auto");
  await page.evaluate(() => {
    const create = URL.createObjectURL;
    URL.createObjectURL = (blob) => { globalThis.last = { size: blob.size, type: blob.type }; return create.call(URL, blob); };
  });
  const noise = (name, format) => make(name, "-f", "lavfi", "-i", "color=gray:s=2200x2000", "-vf", `format=${format},noise=alls=100:all_seed=1,format=${format}`);
  for (const [file, type] of [[noise("opaque.png", "rgb24"), "image/jpeg"], [noise("clear.png", "rgba"), "image/png"]]) {
    await page.setInputFiles("#files", file);
    await page.waitForSelector(`.tile[aria-label^="${file.split("/").at(-1)}"]`, LONG);
    assert.match(await page.textContent("#stage .note"), /in place of 2200 × 2000/);
    const sent = await page.evaluate(() => globalThis.last);
    assert.ok(sent.type === type && sent.size <= 10_485_760, `${file}: ${sent.type} ${sent.size}`);
  }
});

test("prices, plans and models are shown where the daemon has them", async (page) => {
  const shown = async () => {
    await page.click("#account-button");
    const account = await page.textContent("#account");
    await page.keyboard.press("Escape");
    await tab(page, "/replace-bg-ai");
    const models = await page.locator("#settings [value^=fam]").evaluateAll((all) => all.map((one) => one.value));
    await tab(page, "/studio-shot");
    return { plan: /Plan/.test(account), cost: /Cost/.test(account), models };
  };
  await open(page);
  assert.deepEqual(await shown(), { plan: false, cost: false, models: [] });
  await add(page, CAT);
  assert.doesNotMatch(await page.textContent("main"), /\$0/);
  await page.route("**/daemon.json", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), models: ["famA-image-2"], show_prices: true } });
  });
  await page.reload();
  await page.waitForFunction(() => document.getElementById("account-button").textContent.includes("$"), null, LONG);
  assert.deepEqual(await shown(), { plan: true, cost: true, models: ["famA-image-2"] });
  await page.waitForFunction(() => document.getElementById("cost").textContent === "$0.008 per image", null, LONG);
});

test("a wait after 429 is shown with its seconds, for every call", async (page) => {
  const refuseOnce = async (path, seconds) => {
    let refused = false;
    await page.route(path, async (route) => {
      if (refused) return route.fallback();
      refused = true;
      const json = { error: { code: "rate_limit_exceeded", message: "too many requests" } };
      return route.fulfill({ status: 429, headers: { "retry-after": String(seconds) }, json });
    });
  };
  const waits = (seconds) => page.waitForFunction((text) => document.getElementById("waiting").textContent.includes(text), `Goes on in ${seconds} s`, LONG);
  await open(page);
  await refuseOnce("**/account", 1);
  await page.reload();
  await waits(1);
  await page.waitForFunction(() => document.getElementById("account-button").textContent.startsWith("Key"), null, LONG);
  await page.waitForFunction(() => document.getElementById("waiting").textContent === "", null, LONG);
  await refuseOnce("**/video/remove", 2);
  await page.setInputFiles("#files", clip("clip.mp4", 6));
  await page.click("#run");
  await waits(2);
  await says(page, "Done: 1 s");
  // A photo says it on its tile.
  await page.check("#purposes [value=transparent]");
  await refuseOnce("**/remove", 1);
  await page.setInputFiles("#files", CAT);
  await page.click("#run");
  await page.waitForSelector(".tile .state:has-text('waits 1 s')", LONG);
  await idle(page);
  await result(page);
}, { errors: /429/ });

test("settings are those that the endpoint takes, sizes in sight, and ratios from a list", async (page) => {
  await open(page);
  const names = async (path) => {
    await tab(page, path);
    return page.locator("#settings :is(input, select, textarea)[id^=field-]").evaluateAll((all) => all.map((one) => one.id.slice(6)));
  };
  for (const path of ["/upscale", "/face-restore"]) {
    const there = await names(path);
    for (const refused of ["decontaminate", "engine", "segmentation_model", "despill", "keep_alpha"]) assert.ok(!there.includes(refused), `${path}: ${refused}`);
  }
  const crop = await names("/smart-crop");
  assert.ok(!crop.includes("despill") && crop.includes("decontaminate"));
  for (const name of ["max_dim", "width", "height"]) assert.ok(await page.isVisible(`#field-${name}`), name);
  assert.match(await page.textContent("#field-max_dim-help"), /^Only shrinks/);
  await page.selectOption("#field-aspect", "4:5");
  assert.match(await program(page), /aspect=4:5/);
  await page.selectOption("#field-aspect", "other");
  await page.fill("#field-aspect-typed", "wide");
  await page.setInputFiles("#files", CAT);
  await page.waitForSelector(".field.wrong", LONG);
  await page.fill("#field-aspect-typed", "1.91:1");
  assert.match(await program(page), /aspect=1\.91:1/);
  await page.click("[data-act=reset]");
  assert.ok(await page.isHidden("#field-aspect-typed"));
  assert.doesNotMatch(await program(page), /aspect/);
});

test("tabs stay in their places, and the toolbar of a phone has one row", async (page) => {
  await open(page, "/remove");
  const places = () => page.locator(".tabs [role=tab]").evaluateAll((all) => all.map((one) => [one.offsetLeft, one.offsetTop, one.offsetWidth].join()));
  const before = await places();
  for (const path of ["/sticker", "/replace-bg-ai", "/mask"]) {
    await tab(page, path);
    assert.deepEqual(await places(), before, path);
  }
  await page.setViewportSize({ width: 360, height: 740 });
  await page.check("#purposes [value=transparent]");
  await add(page, CAT);
  const isRow = () => page.locator("#stage .toolbar").evaluateAll((all) => all.every((bar) => {
    const middles = [...bar.children].filter((one) => one.offsetHeight && getComputedStyle(one).position !== "absolute").map((one) => one.offsetTop + one.offsetHeight / 2);
    return Math.max(...middles) - Math.min(...middles) < 8;
  }));
  assert.ok(await isRow(), "view");
  await page.click("[data-mode=mark]");
  assert.ok(await isRow(), "marks");
}, { viewport: { width: 768, height: 1024 } });

test("a .HIF of a camera is a picture, without a type too", async (page) => {
  await open(page);
  await page.uncheck("#auto");
  await page.setInputFiles("#files", { name: "DSC1.HIF", mimeType: "", buffer: Buffer.from("heic") });
  await page.waitForSelector(".tile[aria-label='DSC1.HIF']", LONG);
  assert.ok(await page.isHidden("#problem"));
});

test("a control changes the request and the result", async (page) => {
  await open(page, "/studio-shot");
  await add(page, CAT);
  const before = await result(page);
  await page.fill("#field-bg_color", "#204080");
  await page.locator("#settings label", { hasText: "webp" }).click();
  assert.match(await page.textContent("#request code"), /bg_color=#204080[^]*format=webp[^]*result\.webp/);
  await run(page);
  assert.notEqual(await result(page), before);
  const { name, bytes } = await saved(page, "[data-act=download]");
  assert.equal(name, "chelsea-studio-shot.webp");
  assert.equal(bytes.toString("latin1", 8, 12), "WEBP");
  // What the service would refuse is marked before it is sent.
  await page.fill("#field-padding", "much");
  await page.click("#run");
  assert.equal(await page.locator(".field.wrong").count(), 1);
});

test("brush, box and points change the result, and undo takes them back", async (page) => {
  await open(page);
  await add(page, ASTRONAUT);
  const first = await result(page);
  const marked = async (tool, from, to) => {
    await page.click("[data-mode=mark]");
    await page.click(`[data-tool=${tool}]`);
    await drag(page, from, to);
    assert.equal(await page.textContent("#run"), "Apply marks");
    await run(page);
    return result(page);
  };
  const undone = async () => {
    await page.click("[data-mode=mark]");
    await page.click("[data-act=undo]");
    await run(page);
    assert.equal(await result(page), first);
  };
  for (const [tool, from, to] of [
    ["keep", [0.75, 0.75], [0.8, 0.9]], ["drop", [0.45, 0.2], [0.5, 0.25]], ["box", [0.1, 0.1], [0.6, 0.7]],
    ["point", [0.85, 0.3], [0.85, 0.3]],
  ]) {
    assert.notEqual(await marked(tool, from, to), first, tool);
    await undone();
  }
  await marked("keep", [0.75, 0.75], [0.8, 0.9]);
  assert.match(await page.textContent("#request code"), /mask_mode=hint[^]*mask_file=@strokes\.png/);
  // The saucer under the cup.
  await add(page, CUP);
  const withSaucer = await result(page);
  assert.notEqual(await marked("not_point", [0.2, 0.6], [0.2, 0.6]), withSaucer, "not_point");
});

test("an undone mark can be brought back, by buttons and by keys", async (page) => {
  await open(page);
  await add(page, ASTRONAUT);
  const first = await result(page);
  await page.click("[data-mode=mark]");
  await page.click("[data-tool=keep]");
  await drag(page, [0.75, 0.75], [0.8, 0.9]);
  await run(page);
  const marked = await result(page);
  assert.notEqual(marked, first);
  await page.click("[data-mode=mark]");
  const state = async () => Promise.all(["undo", "redo", "clear"].map((act) => page.isEnabled(`[data-act=${act}]`)));
  assert.deepEqual(await state(), [true, false, true]);
  await page.click("[data-act=undo]");
  assert.deepEqual(await state(), [false, true, false]);
  await page.click("[data-act=redo]");
  assert.deepEqual(await state(), [true, false, true]);
  await run(page);
  assert.equal(await result(page), marked);
  await page.click("[data-mode=mark]");
  await page.focus("canvas.marks");
  await page.keyboard.press("Control+z");
  assert.deepEqual(await state(), [false, true, false]);
  await page.keyboard.press("Control+Shift+z");
  assert.deepEqual(await state(), [true, false, true]);
  // All marks are taken back by one step, and a new one ends what can be brought back.
  await page.click("[data-act=clear]");
  assert.deepEqual(await state(), [true, false, false]);
  await page.keyboard.press("Control+z");
  await page.keyboard.press("Control+z");
  assert.deepEqual(await state(), [false, true, false]);
  await drag(page, [0.2, 0.2], [0.3, 0.3]);
  assert.deepEqual(await state(), [true, false, true]);
});

test("marks are applied to the photos that have them, where they are taken", async (page) => {
  await open(page, "/remove");
  await add(page, ASTRONAUT, CAT, CUP);
  await page.uncheck("#auto");
  const select = (at) => page.click(`.strip-grid li:nth-child(${at}) .tile`);
  const paths = posted(page);
  await mark(page);
  await select(2);
  assert.equal(await title(page), "Apply marks");
  await tab(page, "/upscale");
  assert.equal(await title(page), "Start: 3 photos");
  await tab(page, "/remove");
  await run(page);
  assert.deepEqual(paths, ["/remove"]);
  assert.equal(await title(page), "Start again: 3 photos");
  await mark(page);
  await select(3);
  await mark(page);
  assert.equal(await title(page), "Apply marks: 2 photos");
  await run(page);
  assert.equal(paths.length, 3);
  // A mark that is taken back before it is applied leaves nothing to do.
  await mark(page);
  await page.click("[data-act=undo]");
  assert.equal(await title(page), "Start again: 3 photos");
});

test("marks are previewed on a small copy while photos start by themselves", async (page) => {
  await open(page, "/remove");
  const file = join(daemon.folder, "large-cup.jpg");
  execFileSync("ffmpeg", ["-loglevel", "error", "-y", "-i", CUP, "-vf", "scale=2400:1600", file]);
  await add(page, file);
  await page.evaluate(() => {
    globalThis.forms = [];
    const send = fetch;
    globalThis.fetch = async (path, options) => {
      if (options.body instanceof FormData) {
        const { width, height } = await createImageBitmap(options.body.get("file"));
        forms.push({ ...Object.fromEntries(options.body), path, size: [width, height] });
      }
      return send(path, options);
    };
  });
  const forms = () => page.evaluate(() => globalThis.forms);
  /** The share of the editor that is dimmed. */
  const dimmed = () => page.evaluate(() => {
    const { data } = document.querySelector("canvas.marks").getContext("2d").getImageData(0, 0, 1600, 1067);
    return data.filter((value, at) => at % 4 === 3 && value > 100).length / (data.length / 4);
  });
  const dims = async (least, most) => { while (!(least <= await dimmed() && await dimmed() <= most)) await page.waitForTimeout(20); };
  await page.click("[data-mode=mark]");
  await page.click("[data-tool=not_point]");
  const editor = await page.$("canvas.marks");
  const click = (...at) => drag(page, at, at);
  await dims(0.2, 0.8);
  const before = await dimmed();
  // The saucer under the cup.
  await click(0.2, 0.6);
  await dims(before + 0.05, 1);
  const [form] = await forms();
  const [, left, top] = /not_point=(\d+),(\d+)/.exec(await program(page));
  const scaled = [left, top].map((value) => Math.floor((value * 1024) / 2400)).join();
  assert.deepEqual({ ...form, file: null }, { stage: "mask", not_point: scaled, file: null, path: "mask", size: [1024, 683] });
  // Undo is a change too; the fields of the mask are sent, others are not.
  await unfold(page);
  await page.locator("#settings label", { hasText: "high_recall" }).click();
  await page.locator("#settings label", { hasText: "webp" }).click();
  await page.click("[data-act=undo]");
  await dims(0, before + 0.02);
  assert.deepEqual({ ...(await forms())[1], file: null }, { stage: "mask", detect: "high_recall", file: null, path: "mask", size: [1024, 683] });
  assert.ok(await editor.evaluate((canvas) => canvas.isConnected), "the editor stays");
  // A newer change ends the older request.
  await page.route("**/mask", () => {}, { times: 1 });
  await click(0.2, 0.6);
  const [ended] = await Promise.all([page.waitForEvent("requestfailed", LONG), page.click("[data-act=undo]")]);
  assert.match(ended.url(), /mask$/);
  // Refusals: what needs another key or plan is shown, 429 is not, nor is it repeated.
  const refuse = (status, code) => page.route("**/mask", (route) => route.fulfill({ status, headers: { "retry-after": "1" }, json: { error: { code, message: "refused" } } }), { times: 1 });
  for (const [status, code] of [[429, "rate_limit_exceeded"], [402, "payment_required"]]) {
    await refuse(status, code);
    await Promise.all([page.waitForResponse("**/mask", LONG), click(0.3, 0.6)]);
    assert.equal(await page.textContent("#waiting"), "");
    if (status === 402) await page.waitForSelector("#problem:has-text('Refused')", LONG);
    else assert.ok(await page.isHidden("#problem"));
  }
  const count = (await forms()).length;
  await page.uncheck("#auto");
  await click(0.25, 0.6);
  await page.check("#auto");
  await Promise.all([page.waitForResponse("**/mask", LONG), page.click("[data-act=clear]")]);
  assert.equal((await forms()).length, count + 1, "nothing is sent without consent");
}, { errors: /402|429/ });

test("a pinch draws nothing", async (page) => {
  await open(page);
  await add(page, ASTRONAUT);
  await page.click("[data-mode=mark]");
  await page.locator("canvas.marks").scrollIntoViewIfNeeded();
  const box = await page.locator("canvas.marks").boundingBox();
  const protocol = await page.context().newCDPSession(page);
  const touch = (type, ...places) => protocol.send("Input.dispatchTouchEvent", {
    type, touchPoints: places.map(([x, y], id) => ({ id, x: box.x + box.width * x, y: box.y + box.height * y })),
  });
  for (const tool of ["keep", "box", "point"]) {
    await page.click(`[data-tool=${tool}]`);
    await touch("touchStart", [0.4, 0.4]);
    await touch("touchMove", [0.45, 0.45]);
    await touch("touchStart", [0.45, 0.45], [0.7, 0.7]);
    await touch("touchMove", [0.3, 0.3], [0.9, 0.9]);
    await touch("touchEnd");
    assert.ok(await page.isDisabled("[data-act=undo]"), `${tool}: two fingers`);
    await touch("touchStart", [0.4, 0.4]);
    await touch("touchMove", [0.6, 0.6]);
    await touch("touchEnd");
    assert.ok(await page.isEnabled("[data-act=undo]"), `${tool}: one finger`);
    await page.click("[data-act=undo]");
  }
}, { hasTouch: true });

test("files are dropped from the desktop: photos, a clip, and nothing that is no picture", async (page) => {
  await open(page);
  const protocol = await page.context().newCDPSession(page);
  const send = (type, files) => protocol.send("Input.dispatchDragEvent", { type, x: 300, y: 400, data: { items: [], files, dragOperationsMask: 1 } });
  const marked = (yes) => page.waitForFunction((wanted) => document.body.classList.contains("dragging") === wanted, yes, LONG);
  const drop = async (...files) => {
    await send("dragEnter", files);
    await send("dragOver", files);
    await marked(true);
    await send("drop", files);
    await marked(false);
  };
  await drop(CAT, CUP);
  await page.waitForFunction(() => document.querySelectorAll(".tile .done").length === 2, null, LONG);
  await idle(page);
  const text = join(daemon.folder, "notes.txt");
  writeFileSync(text, "no picture");
  await drop(text);
  assert.match(await page.textContent("#problem"), /notes\.txt/);
  assert.equal(await page.locator(".tile").count(), 2);
  await drop(clip("dropped.mp4", 6));
  assert.equal(await page.getAttribute('.tabs [aria-selected="true"]', "data-path"), "/video/remove");
  assert.equal(await page.locator("#stage video").count(), 1);
});

test("a picture is pasted", async (page) => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await open(page);
  await page.evaluate(async () => {
    const image = await createImageBitmap(await (await fetch("assets/cat.jpg")).blob());
    const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
    canvas.getContext("2d").drawImage(image, 0, 0);
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
  });
  await page.keyboard.press("Control+v");
  await result(page);
  await idle(page);
  // Text stays text: it goes into the field that has the focus.
  await page.evaluate(() => navigator.clipboard.writeText("123"));
  await page.fill("#field-max_dim", "");
  await page.focus("#field-max_dim");
  await page.keyboard.press("Control+v");
  assert.equal(await page.inputValue("#field-max_dim"), "123");
  assert.equal(await page.locator(".tile").count(), 1);
});

test("warnings about a picture are shown, and its tile says so", async (page) => {
  await open(page, "/headshot");
  await add(page, CAT);
  assert.match(await page.textContent("#stage .note.warn"), /no face[^]*\.$/);
  assert.equal(await page.textContent(".tile .state"), "check");
  await tab(page, "/replace-bg-ai");
  await page.fill("#field-prompt", "xyzzy");
  await run(page);
  assert.match(await page.textContent("#stage .note.warn"), /No word[^]*neutral studio/);
  await page.fill("#field-prompt", "a marble counter");
  await run(page);
  assert.equal(await page.locator("#stage .note.warn").count(), 0);
  assert.match(await page.textContent("#stage .note"), /marble/);
});

test("the keyboard alone is enough", async (page) => {
  await page.goto(daemon.url);
  await page.waitForSelector("#purposes label", LONG);
  const focus = () => page.evaluate(() => document.activeElement);
  const reach = async (selector) => {
    for (let step = 0; step < 120; step += 1) {
      if (await page.evaluate((wanted) => document.activeElement.matches(wanted), selector)) return;
      await page.keyboard.press("Tab");
    }
    assert.fail(`${selector} cannot be reached: ${await focus()}`);
  };
  await reach("#account-button");
  await page.keyboard.press("Enter");
  await reach("#key");
  await page.keyboard.type(daemon.key);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#account", { state: "hidden", ...LONG });
  await reach("#purposes :checked");
  await page.keyboard.press("ArrowLeft");
  await reach('.tabs [aria-selected="true"]');
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.path), "/studio-shot");
  await page.keyboard.press("ArrowLeft");
  await reach(".samples button");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement.id === "run", null, LONG);
  await page.keyboard.press("Enter");
  const first = await result(page);
  await idle(page);
  await reach("[data-mode=mark]");
  await page.keyboard.press("Enter");
  await reach("[data-tool=box]");
  await page.keyboard.press("Enter");
  await reach("canvas.marks");
  for (const key of ["ArrowUp", "ArrowLeft", " ", "Shift+ArrowDown", "Shift+ArrowRight", "Shift+ArrowRight", " "]) await page.keyboard.press(key);
  await reach("#run");
  await page.keyboard.press("Enter");
  await idle(page);
  assert.notEqual(await result(page), first);
  await reach(".slider");
  await page.keyboard.press("ArrowLeft");
  assert.equal(await page.inputValue(".slider"), "49");
  await reach("[data-act=download]");
  const [download] = await Promise.all([page.waitForEvent("download", LONG), page.keyboard.press("Enter")]);
  assert.equal(download.suggestedFilename(), "astronaut-remove.png");
});

test("many photos have progress and a ZIP, and one bad photo fails alone", async (page) => {
  await open(page);
  const broken = { name: "broken.png", mimeType: "image/png", buffer: Buffer.from("no picture") };
  await page.setInputFiles("#files", [CAT, CUP, ASTRONAUT].map((file) => ({ name: "photo.jpg", mimeType: "image/jpeg", buffer: readFileSync(file) })).concat([broken]));
  await page.waitForFunction(() => document.querySelectorAll(".tile .done").length === 3 && document.querySelectorAll(".tile .failed").length === 1, null, LONG);
  assert.match(await page.textContent("#strip"), /3 of 4 done, 1 failed/);
  await page.waitForSelector("[data-act=zip]:enabled", LONG);
  const file = join(daemon.folder, "all.zip");
  writeFileSync(file, (await saved(page, "[data-act=zip]")).bytes);
  const names = execFileSync("python3", ["-c", `
import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
assert all(archive.read(name).startswith(b"\\x89PNG") for name in archive.namelist())
print(" ".join(archive.namelist()))`, file], { encoding: "utf8" }).trim();
  assert.equal(names, "photo-remove.png photo-remove-2.png photo-remove-3.png");
  await page.click(".strip-grid li:nth-child(4) .tile");
  assert.match(await page.textContent("#stage .note.bad"), /image|picture|JPEG/i);
});

test("a photo that is taken off the page is not sent, and its request ends", async (page) => {
  await open(page);
  const paths = posted(page);
  let release;
  const held = new Promise((done) => { release = done; });
  await page.route("**/remove", async (route) => { await held; await route.continue().catch(() => {}); });
  await page.setInputFiles("#files", Array.from({ length: 4 }, (_, at) => ({ name: `cat-${at}.png`, mimeType: "image/png", buffer: readFileSync(CAT) })));
  await page.waitForFunction(() => [...document.querySelectorAll(".tile .state")].filter((state) => state.textContent === "working").length === 2, null, LONG);
  await page.click(".strip-grid li:nth-child(4) .remove");
  await Promise.all([
    page.waitForEvent("requestfailed", { predicate: (request) => request.url().endsWith("/remove"), ...LONG }),
    page.waitForRequest("**/remove", LONG),
    page.click(".strip-grid li:nth-child(1) .remove"),
  ]);
  release();
  await page.waitForFunction(() => document.querySelectorAll(".tile .done").length === 2, null, LONG);
  await idle(page);
  assert.equal(paths.length, 3);
  assert.match(await page.textContent("#strip"), /2 of 2 done/);
});

test("no address stays of a photo that is taken off while its result is read", async (page) => {
  await open(page);
  await page.evaluate(() => {
    const { createImageBitmap: decode, URL: { createObjectURL: create, revokeObjectURL: revoke } } = globalThis;
    globalThis.addresses = new Set();
    URL.createObjectURL = (blob) => { const url = create.call(URL, blob); addresses.add(url); return url; };
    URL.revokeObjectURL = (url) => { addresses.delete(url); revoke.call(URL, url); };
    globalThis.createImageBitmap = (...all) => new Promise((done) => { globalThis.goOn = () => done(decode(...all)); });
  });
  await page.setInputFiles("#files", CAT);
  await page.waitForFunction(() => globalThis.goOn, null, LONG);
  await page.click(".strip-grid .remove");
  await page.evaluate(() => goOn());
  await page.waitForFunction(() => document.getElementById("run").textContent === "Start", null, LONG);
  assert.equal(await page.evaluate(() => addresses.size), 0);
});

test("a stroke goes on while other photos are processed", async (page) => {
  await open(page);
  // The first one is processed, the others once the stroke has begun.
  let release;
  let requests = 0;
  const held = new Promise((done) => { release = done; });
  await page.route("**/remove", async (route) => {
    requests += 1;
    if (requests > 1) await held;
    await route.continue();
  });
  await page.setInputFiles("#files", [CAT, CUP, ASTRONAUT]);
  await page.waitForFunction(() => document.querySelector(".tile .done"), null, LONG);
  const before = await page.locator(".tile .done").count();
  assert.equal(before, 1);
  await page.click(".strip-grid li:has(.done) .tile");
  await page.click("[data-mode=mark]");
  const { x, y, width, height } = await page.locator("canvas.marks").boundingBox();
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x + width / 2, y + height / 4);
  release();
  await page.waitForFunction((count) => document.querySelectorAll(".tile .done").length > count, before, LONG);
  await page.mouse.move(x + width / 4, y + height / 4);
  await page.mouse.up();
  assert.ok(await page.isEnabled("[data-act=undo]"));
  await page.waitForFunction(() => document.querySelectorAll(".tile .done").length === 3, null, LONG);
  assert.ok(await page.isEnabled("[data-act=undo]"));
});

test("a clip has progress, a player and a download", async (page) => {
  await open(page);
  await page.setInputFiles("#files", clip("clip.mp4", 6));
  assert.equal(await page.getAttribute('.tabs [aria-selected="true"]', "data-path"), "/video/remove");
  await page.click("#run");
  await page.waitForFunction(() => document.querySelectorAll("#stage video").length === 2, null, LONG);
  await page.waitForFunction(() => document.querySelectorAll("#stage video")[1].readyState >= 2, null, LONG);
  assert.match(await page.textContent("#stage"), /Done: 1 s/);
  const { name, bytes } = await saved(page, "#stage a.button");
  assert.match(name, /\.webm$/);
  assert.deepEqual([...bytes.subarray(0, 4)], [0x1a, 0x45, 0xdf, 0xa3], "EBML");
});

test("a result in a folder `results` of an object store is linked there", async (page) => {
  const address = "https://bucket.s3.example.org/results/clip.webm?X-Amz-Expires=3600&X-Amz-Signature=0123abcd";
  await open(page);
  await page.route("**/jobs/*", async (route) => {
    const response = await route.fetch();
    const job = await response.json();
    await route.fulfill({ response, json: job.status === "done" ? { ...job, result_url: address } : job });
  });
  await page.setInputFiles("#files", clip("clip.mp4", 6));
  await page.click("#run");
  await page.waitForSelector("#stage a.button", LONG);
  assert.equal(await page.getAttribute("#stage a.button", "href"), address);
  assert.equal(await page.locator("#stage video").count(), 1, "nothing of another server is shown");
});

test("a clip can be cancelled, and started again", async (page) => {
  await open(page);
  await page.setInputFiles("#files", clip("long.mp4", 240));
  await page.click("#run");
  await page.waitForFunction(() => /Cutting out/.test(document.querySelector("#stage [role=status]").textContent), null, LONG);
  const [reply] = await Promise.all([
    page.waitForResponse((one) => one.request().method() === "DELETE", LONG), page.click("#stage button:has-text('Cancel')"),
  ]);
  assert.equal(reply.status(), 200);
  const job = await fetch(reply.url(), { headers: { authorization: `Bearer ${daemon.key}` } });
  assert.equal((await job.json()).error.code, "cancelled");
  assert.equal(await page.textContent("#stage [role=status]"), "Cancelled.");
  assert.ok(await page.isEnabled("#run") && await page.isHidden("#stage button:has-text('Cancel')"));
  await page.click("#run");
  await page.waitForFunction(() => /Uploading|In the queue|Cutting out/.test(document.querySelector("#stage [role=status]").textContent), null, LONG);
  // Another clip ends the job of this one.
  const deleted = page.waitForResponse((one) => one.request().method() === "DELETE", LONG);
  await page.waitForFunction(() => /Cutting out/.test(document.querySelector("#stage [role=status]").textContent), null, LONG);
  await page.setInputFiles("#files", clip("clip.mp4", 6));
  await deleted;
  await page.click("#run");
  await page.waitForFunction(() => document.querySelectorAll("#stage video").length === 2, null, LONG);
});

const says = (page, words) => page.waitForFunction((wanted) => document.querySelector("#stage [role=status]").textContent.includes(wanted), words, LONG);

test("a clip outlives a lost connection and is billed once", async (page) => {
  await page.clock.install();
  await open(page);
  const paths = posted(page);
  await page.setInputFiles("#files", clip("clip.mp4", 6));
  await page.route("**/jobs/*", (route) => route.abort());
  await page.click("#run");
  await says(page, "trying again");
  // Until it gives up.
  for (let round = 0; !(await page.isEnabled("#run")); round += 1) {
    assert.ok(round < 200, "it never gives up");
    await page.clock.fastForward(30_000);
    await sleep(50);
  }
  await says(page, "cannot be reached");
  await page.click("#run");
  await says(page, "trying again");
  await page.unroute("**/jobs/*");
  await page.clock.fastForward(30_000);
  await says(page, "Done: 1 s");
  assert.deepEqual(paths, ["/video/remove"]);
  // Of a clip that arrived, the reply is lost.
  const protocol = await page.context().newCDPSession(page);
  const jobs = [];
  protocol.on("Fetch.requestPaused", async ({ requestId }) => {
    const { body } = await protocol.send("Fetch.getResponseBody", { requestId });
    jobs.push(JSON.parse(Buffer.from(body, "base64")).job_id);
    await (jobs.length === 1 ? protocol.send("Fetch.failRequest", { requestId, errorReason: "Failed" }) : protocol.send("Fetch.continueRequest", { requestId }));
  });
  await protocol.send("Fetch.enable", { patterns: [{ urlPattern: "*/video/remove", requestStage: "Response" }] });
  await page.click("#run");
  await says(page, "cannot be reached");
  await page.click("#run");
  await says(page, "Done: 1 s");
  assert.equal(jobs.length, 2);
  assert.equal(jobs[0], jobs[1]);
}, { errors: /ERR_FAILED/ });

test("photos that wait can be cancelled", async (page) => {
  await open(page, "/upscale");
  await page.setInputFiles("#files", Array.from({ length: 6 }, (_, at) => ({ name: `cat-${at}.png`, mimeType: "image/png", buffer: readFileSync(CAT) })));
  await page.waitForSelector(".tile .busy", LONG);
  const [label, tile] = await page.evaluate(() => [".tile .busy", ".tile"].map((one) => document.querySelector(one).clientHeight));
  assert.ok(label < tile / 2, "a label, not a cover");
  await page.click("#strip button:has-text('Cancel')");
  await page.waitForFunction(() => document.getElementById("run").textContent !== "Working…", null, LONG);
  const states = await page.locator(".tile .state").allTextContents();
  assert.equal(states.length, 6);
  assert.ok(states.includes("cancelled") && states.every((state) => ["cancelled", "done"].includes(state)), states.join());
  await run(page);
  assert.deepEqual(await page.locator(".tile .state").allTextContents(), Array(6).fill("done"));
});

test("the backdrop is a colour or a picture, and the result on it can be saved", async (page) => {
  await open(page);
  await add(page, CAT);
  await page.click("[data-backdrop=colour]");
  await page.locator("#stage input[type=color]").fill("#ff0000");
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector(".backdrop")).backgroundColor), "rgb(255, 0, 0)");
  const { name } = await saved(page, "[data-act=composed]");
  assert.equal(name, "chelsea-remove-backdrop.png");
  await page.setInputFiles('#stage input[type=file]', CUP);
  assert.match(await page.evaluate(() => getComputedStyle(document.querySelector(".backdrop")).backgroundImage), /^url\("blob:/);
});

test("the request that is shown runs in the shell and in node", async (page) => {
  await open(page, "/sticker");
  await add(page, CAT);
  await page.fill("#field-stroke_width", "7");
  await page.locator("#request summary").click();
  const env = { ...process.env, BACKDROP_KEY: daemon.key };
  writeFileSync(join(daemon.folder, "chelsea.png"), readFileSync(CAT));
  await run(page);
  const { bytes: shown } = await saved(page, "[data-act=download]");
  const made = () => readFileSync(join(daemon.folder, "result.png"));
  execFileSync("bash", ["-c", await page.textContent("#request code")], { cwd: daemon.folder, env, stdio: "ignore" });
  assert.ok(made().equals(shown), "curl");
  writeFileSync(join(daemon.folder, "result.png"), "");
  await page.click("[data-language=JavaScript]");
  writeFileSync(join(daemon.folder, "program.mjs"), await page.textContent("#request code"));
  execFileSync("node", ["program.mjs"], { cwd: daemon.folder, env, stdio: "ignore" });
  assert.ok(made().equals(shown), "node");
  await page.click("[data-language=Python]");
  execFileSync("python3", ["-c", "import ast, sys; ast.parse(sys.argv[1])", await page.textContent("#request code")]);
});

test("the program in the shell takes any file name, and the strokes that the page saves", async (page) => {
  await open(page);
  const name = ` one, "two"; it's three.png`;
  await page.setInputFiles("#files", { name, mimeType: "image/png", buffer: readFileSync(ASTRONAUT) });
  await result(page);
  await idle(page);
  await page.locator("#request summary").click();
  assert.ok(await page.isHidden("[data-act=strokes]"));
  await mark(page);
  const strokes = await saved(page, "[data-act=strokes]");
  assert.equal(strokes.name, "strokes.png");
  await run(page);
  const { bytes: shown } = await saved(page, "[data-act=download]");
  writeFileSync(join(daemon.folder, name), readFileSync(ASTRONAUT));
  writeFileSync(join(daemon.folder, "strokes.png"), strokes.bytes);
  writeFileSync(join(daemon.folder, "result.png"), "");
  execFileSync("bash", ["-c", await program(page)], { cwd: daemon.folder, env: { ...process.env, BACKDROP_KEY: daemon.key }, stdio: "ignore" });
  assert.ok(readFileSync(join(daemon.folder, "result.png")).equals(shown));
});

test("a default can be chosen where the service would use another", async (page) => {
  await open(page, "/replace-bg");
  await page.setInputFiles("#field-bg_file", CUP);
  assert.match(await program(page), /result\.jpg/);
  await page.locator("#settings label", { hasText: "png" }).click();
  assert.match(await program(page), /format=png[^]*result\.png/);
  await add(page, CAT);
  const { name, bytes } = await saved(page, "[data-act=download]");
  assert.equal(name, "chelsea-replace-bg.png");
  assert.equal(bytes.toString("latin1", 1, 4), "PNG");
  await page.click("[data-act=reset]");
  assert.doesNotMatch(await program(page), /format|bg_file/);
  await tab(page, "/replace-bg-ai");
  await page.locator("#settings label", { hasText: "webp" }).click();
  await unfold(page);
  await page.fill("#field-quality", "80");
  await page.fill("#field-quality", "92");
  assert.match(await program(page), /quality=92/);
});

test("settings stay with their tab, and a photo is sent again for those that its result lacks", async (page) => {
  await open(page, "/sticker");
  await add(page, CAT);
  await page.fill("#field-stroke_width", "7");
  assert.equal(await title(page), "Apply settings");
  await tab(page, "/shadow");
  await tab(page, "/sticker");
  assert.equal(await page.inputValue("#field-stroke_width"), "7");
  assert.match(await program(page), /stroke_width=7/);
  const paths = posted(page);
  await add(page, CUP);
  assert.equal(await title(page), "Apply settings");
  await run(page);
  assert.equal(paths.length, 2);
  assert.equal(await title(page), "Start again: 2 photos");
});

test("presets are saved, used and deleted", async (page) => {
  await open(page, "/shadow");
  await add(page, CAT);
  await page.fill("#field-angle", "45");
  await page.locator("#presets summary").click();
  await page.fill("#presets input", "Evening");
  await page.click("#presets button:has-text('Save')");
  await page.waitForFunction(() => document.querySelector("#presets select").selectedOptions[0]?.textContent === "Evening", null, LONG);
  const request = await page.textContent("#request code");
  assert.match(request, /preset=preset_/);
  assert.doesNotMatch(request, /angle/);
  await run(page);
  const withPreset = await result(page);
  await page.selectOption("#presets select", { label: "No preset" });
  assert.equal(await page.inputValue("#field-angle"), "135");
  await run(page);
  assert.notEqual(await result(page), withPreset);
  await page.selectOption("#presets select", { label: "Evening" });
  assert.equal(await page.inputValue("#field-angle"), "45");
  await page.click("#presets button:has-text('Delete')");
  await page.waitForFunction(() => document.querySelectorAll("#presets option").length === 1, null, LONG);
});

test("a preset of the API keeps its values, alone and in a preset made from it", async (page) => {
  const params = { bg_blur: true, transparent: "yes", enhance: 1 };
  const { id } = await api("POST", "/presets", { name: "Of the API", endpoint: "/studio-shot", params });
  await open(page, "/studio-shot");
  await page.locator("#presets summary").click();
  await page.selectOption("#presets select", id);
  const request = await program(page);
  assert.match(request, new RegExp(`preset=${id}[^]*result\\.png`));
  assert.doesNotMatch(request, /bg_blur|transparent|enhance/);
  assert.equal(await page.inputValue("#field-bg_blur"), "50");
  assert.ok(await page.isChecked("#field-transparent") && await page.isChecked("#field-enhance"));
  await page.fill("#field-padding", "20%");
  await page.fill("#presets input", "Both");
  await page.click("#presets button:has-text('Save')");
  await page.waitForFunction(() => document.querySelector("#presets select").selectedOptions[0]?.textContent === "Both", null, LONG);
  const { presets } = await api("GET", "/presets");
  assert.deepEqual(presets.find(({ name }) => name === "Both").params, { ...params, padding: "20%" });
  // Another account has no such preset.
  page.once("dialog", (dialog) => dialog.accept());
  await page.evaluate((key) => { location.hash = `#key=${key}`; }, daemon.otherKey);
  await page.waitForFunction(() => document.querySelectorAll("#presets option").length === 1, null, LONG);
  assert.doesNotMatch(await program(page), /preset/);
  assert.equal(await page.inputValue("#field-padding"), "10%");
});

test("a setting of a preset can be cleared", async (page) => {
  const params = { angle: 45, max_dim: 300 };
  const { id } = await api("POST", "/presets", { name: "Small", endpoint: "/shadow", params });
  await open(page, "/shadow");
  await page.locator("#presets summary").click();
  await page.selectOption("#presets select", id);
  assert.equal(await page.inputValue("#field-max_dim"), "300");
  await page.fill("#field-max_dim", "");
  const request = await program(page);
  assert.match(request, /angle=45/);
  assert.doesNotMatch(request, /preset|max_dim/);
  await page.fill("#field-max_dim", "200");
  assert.match(await program(page), new RegExp(`preset=${id}[^]*max_dim=200`));
});

test("a link does not replace the key without a question, or with a wrong one", async (page) => {
  await open(page);
  const button = await page.textContent("#account-button");
  const questions = [];
  let answer = "dismiss";
  page.on("dialog", (dialog) => { questions.push(dialog.message()); return dialog[answer](); });
  const follow = (key) => page.evaluate((text) => { location.hash = `#key=${text}`; }, key);
  const expectQuestions = async (count) => { while (questions.length < count) await page.waitForTimeout(20); };
  const held = () => page.evaluate(() => sessionStorage["backdrop.key"]);
  await follow(daemon.otherKey);
  await expectQuestions(1);
  assert.equal(await held(), daemon.key);
  assert.match(questions[0], /account "[^"]+"\. Use it in place of your key/);
  answer = "accept";
  for (const wrong of ["bd_live_wrong", "%", "%D0%BA"]) {
    await page.evaluate(() => { document.getElementById("problem").hidden = true; });
    await follow(wrong);
    await page.waitForSelector("#problem:has-text('not valid')", LONG);
    await page.waitForFunction((text) => document.getElementById("account-button").textContent === text, button, LONG);
    assert.equal(await held(), daemon.key, wrong);
  }
  assert.equal(questions.length, 1, "a wrong key is not asked about");
  await follow(daemon.otherKey);
  await page.waitForFunction((key) => sessionStorage["backdrop.key"] === key, daemon.otherKey, LONG);
  const visitor = await page.context().newPage();
  let question;
  visitor.on("dialog", (dialog) => { question = dialog.message(); return dialog.dismiss(); });
  await visitor.goto(`${daemon.url}/#key=${daemon.otherKey}`);
  await visitor.waitForFunction(() => document.getElementById("account-button").textContent === "Enter key", null, LONG);
  while (!question) await visitor.waitForTimeout(20);
  assert.equal(await visitor.evaluate(() => sessionStorage.length), 0, "a visitor without a key is asked too");
  const empty = await page.context().newPage();
  await empty.goto(`${daemon.url}/#key=%`);
  await empty.waitForSelector("#problem:has-text('not valid')", LONG);
  assert.ok(await empty.locator(".tabs [role=tab]").count() > 5);
}, { errors: /401/ });

test("the page works where the browser blocks storage", async (page) => {
  await page.addInitScript(() => Object.defineProperty(window, "sessionStorage", { get() { throw new DOMException("blocked", "SecurityError"); } }));
  await open(page);
  await add(page, CAT);
  await result(page);
});

test("the key stays in the tab, and a wrong one is explained", async (page) => {
  await open(page);
  assert.ok(!page.url().includes(daemon.key));
  assert.equal(await page.evaluate(() => `${localStorage.length} ${document.cookie}`), "0 ");
  await page.reload();
  await page.waitForFunction(() => document.getElementById("account-button").textContent.startsWith("Key"), null, LONG);
  await page.click("#account-button");
  assert.match(await page.textContent("#account"), /Images this month/);
  await page.click("#account button:has-text('Change key')");
  await page.fill("#key", "bd_live_wrong");
  await page.click("#account .primary");
  await page.waitForSelector("#account .note.bad", LONG);
  assert.match(await page.textContent("#account .note.bad"), /not valid/);
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await page.fill("#key", "ключ");
  await page.click("#account .primary");
  await page.waitForSelector("#account .note.bad:has-text('not an API key')", LONG);
}, { errors: /401/ });

test("nothing scrolls sideways at 320 pixels, with all settings open", async (page) => {
  await open(page);
  await add(page, CAT, CUP);
  for (const path of await page.locator(".tabs [role=tab]").evaluateAll((all) => all.map((one) => one.dataset.path))) {
    await tab(page, path);
    await unfold(page);
    assert.equal(await width(page), 320, path);
  }
  await tab(page, "/remove");
  await page.click("[data-mode=mark]");
  assert.equal(await width(page), 320, "editor");
  await page.click("#account-button");
  assert.equal(await width(page), 320, "account");
  await page.goto(`${daemon.url}/docs`);
  await unfold(page);
  assert.equal(await width(page), 320, "reference");
}, { viewport: { width: 320, height: 640 }, hasTouch: true });

for (const colorScheme of ["light", "dark"]) {
  test(`axe has no serious finding (${colorScheme})`, async (page) => {
    await open(page);
    assert.deepEqual(await findings(page), [], "empty page");
    await add(page, CAT, CUP);
    await tab(page, "/shadow");
    await run(page);
    await unfold(page);
    assert.deepEqual(await findings(page), [], "result and settings");
    await page.click("[data-mode=mark]");
    await drag(page, [0.2, 0.2], [0.4, 0.4]);
    assert.deepEqual(await findings(page), [], "editor");
    await page.click("#account-button");
    assert.deepEqual(await findings(page), [], "account");
    await page.goto(`${daemon.url}/docs`);
    assert.deepEqual(await findings(page), [], "reference");
  }, { colorScheme });
}

test("the reference has search, three languages and a way to the page", async (page) => {
  await page.goto(`${daemon.url}/docs`);
  assert.match(await page.textContent("#remove pre:not([hidden])"), new RegExp(daemon.url));
  await page.fill("#search", "stroke_width");
  const shown = await page.locator("main section:visible").evaluateAll((all) => all.map(({ id }) => id));
  assert.ok(shown.includes("sticker") && !shown.includes("remove"), shown.join());
  await page.fill("#search", "");
  const section = page.locator("#sticker");
  await section.locator(".choice button", { hasText: "Python" }).click();
  assert.match(await section.locator("pre:visible").innerText(), /import requests/);
  assert.ok(await section.locator("img.example").evaluate(async (image) => { image.loading = "eager"; await image.decode(); return image.naturalWidth > 0; }));
  await section.locator("a", { hasText: "Try it" }).click();
  await page.waitForSelector('.tabs [data-path="/sticker"][aria-selected="true"]', LONG);
});

/** Screenshots for docs/page, as WebP. */
async function screenshots() {
  const folder = path("docs/page");
  mkdirSync(folder, { recursive: true });
  const shot = async (name, options, work) => {
    const context = await browser.newContext({ reducedMotion: "reduce", ...options });
    const page = await context.newPage();
    await open(page);
    await work(page);
    await page.evaluate(() => document.getElementById("auto")?.click());
    await page.mouse.move(0, 0);
    const picture = `data:image/png;base64,${(await page.screenshot()).toString("base64")}`;
    const blank = await context.newPage();
    const data = await blank.evaluate(async (source) => {
      const image = new Image();
      image.src = source;
      await image.decode();
      const canvas = Object.assign(document.createElement("canvas"), { width: image.naturalWidth, height: image.naturalHeight });
      canvas.getContext("2d").drawImage(image, 0, 0);
      return canvas.toDataURL("image/webp", 0.8).split(",")[1];
    }, picture);
    writeFileSync(join(folder, `${name}.webp`), Buffer.from(data, "base64"));
    await context.close();
  };
  const desktop = { viewport: { width: 1280, height: 860 } };
  await shot("cutout", desktop, async (page) => {
    await add(page, CAT, CUP, ASTRONAUT);
    await page.evaluate(() => scrollTo(0, 0));
  });
  await shot("marks", desktop, async (page) => {
    await add(page, ASTRONAUT);
    await page.click("[data-mode=mark]");
    await page.click("[data-tool=keep]");
    await drag(page, [0.62, 0.95], [0.78, 0.75]);
    await page.click("[data-tool=box]");
    await drag(page, [0.03, 0.02], [0.97, 0.99]);
    await page.evaluate(() => scrollTo(0, 0));
  });
  await shot("tablet", { viewport: { width: 820, height: 1000 }, colorScheme: "dark" }, async (page) => {
    await tab(page, "/studio-shot");
    await add(page, CUP);
    await page.evaluate(() => scrollTo(0, 0));
  });
  await shot("phone", { viewport: { width: 375, height: 740 }, hasTouch: true }, async (page) => {
    await tab(page, "/sticker");
    await add(page, CAT);
    await page.evaluate(() => scrollTo(0, 0));
  });
  await shot("reference", desktop, async (page) => {
    await page.goto(`${daemon.url}/docs#shadow`);
    await page.locator("#shadow img.example").evaluate((image) => { image.loading = "eager"; return image.decode(); });
  });
}

let failed = 0;
const chosen = tests.filter(({ name }) => name.includes(process.env.ONLY ?? ""));
for (const { name, work, options } of chosen) {
  const { errors, ...settings } = options;
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...settings });
  if (process.env.FILES) await context.route(/\/assets\/[^/]+$|\/(#.*)?$/, serveFile);
  const page = await context.newPage();
  const problems = [];
  const allowed = (text) => errors?.test(text) || /status of 4(00|15)/.test(text);
  page.on("console", (message) => { if (message.type() === "error" && !allowed(message.text())) problems.push(message.text()); });
  page.on("pageerror", (error) => problems.push(error.stack));
  context.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol !== "blob:" && protocol !== "data:" && origin !== daemon.url) problems.push(`a request to ${request.url()}`);
  });
  try {
    await work(page);
    assert.deepEqual(problems, []);
    console.log(`ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n${error.stack}\n${problems.join("\n")}`);
  }
  await context.close();
}
if (option === "--update" && !failed) await screenshots();
await browser.close();
await daemon.stop();
console.log(`${chosen.length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
