// Files of the machine, which only Node has.

import type { FileInput } from "./fields.js";
import { nodeModule, nodeProcess } from "./node.js";

/** The content of a file and its name. A path is read while it is sent, not before. */
export async function blobOf(file: FileInput): Promise<[Blob, string]> {
  if (file instanceof Blob) return [file, "name" in file && typeof file.name === "string" ? file.name : "picture"];
  if (typeof file === "string" || file instanceof URL) {
    const path = file instanceof URL ? nodeModule("node:url").fileURLToPath(file) : file;
    const blob = await nodeModule("node:fs").openAsBlob(path);
    return [blob, nodeModule("node:path").basename(path)];
  }
  return [new Blob([file as ArrayBufferView<ArrayBuffer>]), "picture"];
}

/** Writes bytes to a file. */
export async function writeFile(path: string, bytes: Uint8Array): Promise<void> {
  await nodeModule("node:fs").promises.writeFile(path, bytes);
}

/** Writes pieces to a file beside `path` that takes its place at the end, so that no part of a result stands there. */
export async function writePieces(path: string, pieces: AsyncIterable<Uint8Array>): Promise<void> {
  const { open, rename, rm } = nodeModule("node:fs").promises;
  const part = `${path}.part`;
  try {
    const file = await open(part, "w");
    try {
      // Appends, and unlike `write` all of the piece: a disk that gets full takes a part of it.
      for await (const piece of pieces) await file.writeFile(piece);
    } finally {
      await file.close();
    }
    await rename(part, path);
  } finally {
    await rm(part, { force: true });
  }
}

/** A variable of the environment, where there is one. */
export function variable(name: string): string | undefined {
  return nodeProcess?.env?.[name];
}
