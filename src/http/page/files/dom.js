// Makes elements and says things to screen readers.

/** An element with attributes, listeners (`onclick`) and children; `null` children are left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** The element with this id. */
export const find = (id) => document.getElementById(id);

/** Text with `code` between backticks, as nodes. */
export function marked(text) {
  return text.split("`").map((piece, at) => (at % 2 ? h("code", {}, piece) : piece)).filter((piece) => piece !== "");
}

/** The first sentence of a text. */
export function firstSentence(text) {
  const end = text.search(/\.\s+[A-Z`]/);
  return end < 0 ? text : text.slice(0, end + 1);
}

/** A text of the service as a sentence. */
export const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;

/** A warning of the service about a result. */
export const warning = (text) => h("p", { class: "note warn" }, marked(sentence(text)));

/** Announces a change that is only visible otherwise. */
export function announce(text) {
  find("status").textContent = text;
}

let shownWait = 0;
/** Shows above everything else, for so many seconds, that a call waits. */
export function showWait(seconds) {
  const place = find("waiting");
  place.textContent = `Too many requests at once. Goes on in ${seconds} s.`;
  place.showPopover?.();
  clearTimeout(shownWait);
  shownWait = setTimeout(() => { place.hidePopover?.(); place.textContent = ""; }, seconds * 1000);
}

/** Offers a file to be saved. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A size in bytes for people. */
export function bytes(count) {
  if (count < 1000) return `${count} B`;
  return count < 1e6 ? `${(count / 1e3).toFixed(0)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

/** An amount of dollars for people: no more digits than it has. */
export function dollars(amount) {
  return `$${Number(amount.toFixed(6))}`;
}
