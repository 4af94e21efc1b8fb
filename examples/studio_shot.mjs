#!/usr/bin/env node
// Makes a studio shot of one photo over HTTP. Node 18 or later, no packages.
//
//     BACKDROP_URL=http://127.0.0.1:8080 BACKDROP_KEY=bd_live_… node examples/studio_shot.mjs photo.jpg shot.jpg
import { readFile, writeFile } from "node:fs/promises";
import { basename } from "node:path";

const url = process.env.BACKDROP_URL ?? "http://127.0.0.1:8080";
const key = process.env.BACKDROP_KEY;
const [photo, shot] = process.argv.slice(2);

const form = new FormData();
form.append("file", new Blob([await readFile(photo)]), basename(photo));
form.append("aspect", "4:5");
form.append("width", "800");
form.append("bg_color", "#f4f1ec");
form.append("format", "jpg");

const reply = await fetch(`${url}/studio-shot`, {
  method: "POST",
  headers: { Authorization: `Bearer ${key}` },
  body: form,
});
if (!reply.ok) {
  const { error, request_id } = await reply.json();
  console.error(`${reply.status} ${error.code}: ${error.message} (${request_id})`);
  process.exit(1);
}
await writeFile(shot, Buffer.from(await reply.arrayBuffer()));
console.log(`${shot}: subject at ${reply.headers.get("x-service-foreground")}`);
