// The archive of a batch's reply: stored files, listed by the central directory (APPNOTE 4.3).

import { BackdropError } from "./errors.js";

const END = 0x06054b50;
const ENTRY = 0x02014b50;
const END_SIZE = 22;

/** The files of an archive without compression, by name, as views of `bytes`. */
export function unzip(bytes: Uint8Array<ArrayBuffer>): Map<string, Uint8Array<ArrayBuffer>> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const damaged = new BackdropError("the archive is damaged");
  let end = bytes.length - END_SIZE;
  while (end >= 0 && view.getUint32(end, true) !== END) end -= 1;
  if (end < 0) throw damaged;
  const files = new Map<string, Uint8Array<ArrayBuffer>>();
  try {
    let at = view.getUint32(end + 16, true);
    for (let left = view.getUint16(end + 10, true); left > 0; left -= 1) {
      const [method, size] = [view.getUint16(at + 10, true), view.getUint32(at + 20, true)];
      if (view.getUint32(at, true) !== ENTRY || method !== 0) throw damaged;
      const [name, extra, comment] = [28, 30, 32].map((offset) => view.getUint16(at + offset, true)) as [number, number, number];
      const local = view.getUint32(at + 42, true);
      const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
      if (start + size > bytes.length) throw damaged;
      files.set(new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + name)), bytes.subarray(start, start + size));
      at += 46 + name + extra + comment;
    }
  } catch (error) {
    throw error instanceof RangeError ? damaged : error;
  }
  return files;
}
