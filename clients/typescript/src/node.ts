// The few functions of Node that the client uses, declared here so that neither building nor using it needs `@types/node`.

/** Modules of Node by name. */
interface Modules {
  "node:fs": {
    openAsBlob(path: string): Promise<Blob>;
    promises: {
      writeFile(path: string, bytes: Uint8Array): Promise<void>;
      open(path: string, flags: "w"): Promise<{ writeFile(bytes: Uint8Array): Promise<void>; close(): Promise<void> }>;
      rename(from: string, to: string): Promise<void>;
      rm(path: string, options: { force: true }): Promise<void>;
    };
  };
  "node:path": { basename(path: string): string };
  "node:url": { fileURLToPath(url: URL): string };
}

interface Process {
  getBuiltinModule?: <N extends keyof Modules>(name: N) => Modules[N];
  env: Record<string, string | undefined>;
  stderr: { isTTY?: boolean; write(text: string): void };
}

/** Node's process; undefined in browsers. */
export const nodeProcess = (globalThis as { process?: Process }).process;

/** A module of Node. Nothing is imported, so that bundlers for browsers find nothing to resolve. */
export function nodeModule<N extends keyof Modules>(name: N): Modules[N] {
  if (!nodeProcess?.getBuiltinModule) throw new TypeError("files by path need Node 20.16 or later; pass a Blob or bytes");
  return nodeProcess.getBuiltinModule(name);
}
