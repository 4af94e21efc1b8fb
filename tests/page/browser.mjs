// Starts Debian's Chromium by playwright-core, which is installed in the folder `tools`.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { resolve } from "node:path";

/** A package of the folder. */
export const load = (tools, name) => createRequire(resolve(tools, "package.json"))(name);

/** A headless browser. */
export function chromium(tools) {
  const executablePath = process.env.CHROMIUM ?? execFileSync("which", ["chromium"], { encoding: "utf8" }).trim();
  return load(tools, "playwright-core").chromium.launch({ executablePath, args: ["--no-sandbox"] });
}
