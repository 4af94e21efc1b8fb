// Makes the pictures of the reference (`/docs`): a result of each endpoint, 320×320, as src/http/page/files/example-*.webp.
//
//     node tests/page/examples.mjs TOOLS URL KEY
//
// TOOLS is the folder with playwright-core; URL a daemon whose KEY belongs to an account on the plan plus that may generate
// backdrops.
import { readFile, writeFile } from "node:fs/promises";
import { chromium } from "./browser.mjs";

const [, , tools, url, key] = process.argv;
const photos = new URL("../photos/", import.meta.url);
const files = new URL("../../src/http/page/files/", import.meta.url);

/** Operation, path, photo, fields. */
const EXAMPLES = [
  ["remove", "/remove", "chelsea.png", {}],
  ["mask", "/mask", "chelsea.png", {}],
  ["replaceBg", "/replace-bg", "chelsea.png", { bg_color: "#8fc7b5" }],
  ["replaceBgAi", "/replace-bg-ai", "coffee.jpg", { prompt: "a marble counter in soft window light", box: "120,0,480,390" }],
  ["studioShot", "/studio-shot", "coffee.jpg", { box: "120,0,480,390" }],
  ["smartCrop", "/smart-crop", "astronaut.jpg", {}],
  ["shadow", "/shadow", "chelsea.png", { opacity: "0.6" }],
  ["sticker", "/sticker", "chelsea.png", {}],
  ["headshot", "/headshot", "astronaut.jpg", {}],
];

const browser = await chromium(tools);
const page = await browser.newPage();
for (const [operation, path, photo, fields] of EXAMPLES) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append("file", new Blob([await readFile(new URL(photo, photos))]), photo);
  const reply = await fetch(url + path, { method: "POST", body: form, headers: { authorization: `Bearer ${key}` } });
  if (!reply.ok) throw new Error(`${path}: ${await reply.text()}`);
  const picture = `data:${reply.headers.get("content-type")};base64,${Buffer.from(await reply.arrayBuffer()).toString("base64")}`;
  const small = await page.evaluate(async (source) => {
    const image = new Image();
    image.src = source;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: 320, height: 320 });
    const scale = 320 / Math.max(image.naturalWidth, image.naturalHeight);
    const [width, height] = [image.naturalWidth * scale, image.naturalHeight * scale];
    canvas.getContext("2d").drawImage(image, (320 - width) / 2, (320 - height) / 2, width, height);
    return canvas.toDataURL("image/webp", 0.8).split(",")[1];
  }, picture);
  await writeFile(new URL(`example-${operation}.webp`, files), Buffer.from(small, "base64"));
}
await browser.close();
