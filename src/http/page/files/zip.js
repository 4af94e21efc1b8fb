// Writes ZIP archives (PKWARE APPNOTE 6.3.10) without compression: pictures are compressed already.

const TABLE = new Uint32Array(256).map((_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

/** CRC-32 of ISO 3309, as ZIP uses it. */
function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = TABLE[(crc ^ byte) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

const UTF8_NAMES = 0x0800;
const VERSION = 20;
const LIMIT = 0xffffffff;

/** An archive of `entries` of `{ name, bytes }`; a name that occurs twice gets a number. Throws beyond 4 GB or 65,534 files. */
export function zip(entries, now = new Date()) {
  if (entries.length > 65534) throw new RangeError("an archive holds at most 65,534 files");
  const time = (now.getHours() << 11) | (now.getMinutes() << 5) | (now.getSeconds() >> 1);
  const date = (Math.max(now.getFullYear() - 1980, 0) << 9) | ((now.getMonth() + 1) << 5) | now.getDate();
  const names = new Set();
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const { name, bytes } of entries) {
    const encoded = new TextEncoder().encode(unique(name, names));
    const common = [[2, UTF8_NAMES], [2, 0], [2, time], [2, date], [4, crc32(bytes)], [4, bytes.length], [4, bytes.length], [2, encoded.length], [2, 0]];
    const local = record([[4, 0x04034b50], [2, VERSION], ...common]);
    directory.push(record([[4, 0x02014b50], [2, VERSION], [2, VERSION], ...common, [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]]), encoded);
    parts.push(local, encoded, bytes);
    offset += local.length + encoded.length + bytes.length;
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  if (offset + size > LIMIT) throw new RangeError("an archive holds at most 4 GB");
  const count = entries.length;
  const end = record([[4, 0x06054b50], [2, 0], [2, 0], [2, count], [2, count], [4, size], [4, offset], [2, 0]]);
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}

/** Little-endian fields of two or four bytes. */
function record(fields) {
  const view = new DataView(new ArrayBuffer(fields.reduce((sum, [width]) => sum + width, 0)));
  let at = 0;
  for (const [width, value] of fields) {
    if (width === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += width;
  }
  return new Uint8Array(view.buffer);
}

function unique(name, names) {
  const dot = name.lastIndexOf(".");
  const [stem, extension] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ""];
  let chosen = name;
  for (let number = 2; names.has(chosen.toLowerCase()); number += 1) chosen = `${stem}-${number}${extension}`;
  names.add(chosen.toLowerCase());
  return chosen;
}
