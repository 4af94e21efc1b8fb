// A daemon on the loopback for the tests of the page, with a key that may use every endpoint and one of another account.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** Starts it; `stop()` checks that it ends cleanly. */
export async function start(binary) {
  const program = resolve(binary);
  const folder = mkdtempSync(join(tmpdir(), "backdrop-page-"));
  const data = ["--data-dir", join(folder, "data")];
  const variables = Object.entries(process.env).filter(([name]) => !name.startsWith("BACKDROP_"));
  const env = { ...Object.fromEntries(variables), BACKDROP_LIMITS_RATE_PER_MINUTE: "100000", BACKDROP_LOG_FORMAT: "json" };
  const run = (...words) => execFileSync(program, [...words, ...data], { env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  run("accounts", "create", "default", "--plan", "plus", "--generates", "on");
  const key = run("keys", "create", "--label", "page");
  run("accounts", "create", "other", "--plan", "plus");
  const otherKey = run("keys", "create", "--account", "other", "--label", "page");
  const child = spawn(program, ["serve", "--device", "cpu", ...data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"], { env, stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  const ended = new Promise((done) => child.on("exit", done));
  const url = await new Promise((done, fail) => {
    child.stderr.on("data", (piece) => {
      log += piece;
      const line = log.split("\n").find((text) => text.includes('"listening"') && text.endsWith("}"));
      if (line) done(`http://${JSON.parse(line).fields.address}`);
    });
    ended.then(() => fail(new Error(`the daemon did not start:\n${log}`)));
  });
  const stop = async () => {
    child.kill("SIGTERM");
    const code = await ended;
    rmSync(folder, { recursive: true, force: true });
    if (code !== 0 || log.includes("panicked")) throw new Error(`the daemon ended with ${code}:\n${log.slice(-4000)}`);
  };
  return { url, key, otherKey, folder, stop };
}
