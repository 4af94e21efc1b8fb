// Shows the request of a tab as a program to copy.

import { announce, h, save } from "./dom.js";
import { snippets } from "./snippets.js";

let language = "curl";

/** The section of the request; `describe()` gives what is sent now, and `strokes()` for the picture of the strokes, if there are any. */
export function requestPanel(describe) {
  const code = h("code", {});
  const block = h("pre", { tabindex: 0, "aria-label": "Request" }, code);
  const buttons = ["curl", "Python", "JavaScript"].map((name) => h("button", { type: "button", "data-language": name, onclick: () => { language = name; refresh(); } }, name));
  const copy = h("button", { type: "button", class: "button small", onclick: async () => {
    announce((await copied(code)) ? "Copied." : "Select the text and copy it.");
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  } }, "Copy");
  const strokes = h("button", { type: "button", class: "button small", "data-act": "strokes", onclick: async () => save(await described.strokes(), "strokes.png") }, "Save strokes.png");
  let described = null;
  const refresh = () => {
    described = describe();
    strokes.hidden = !described.strokes;
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.language === language)));
    code.textContent = snippets(described).find((snippet) => snippet.name === language).text;
  };
  refresh();
  const element = h("details", { class: "code-block" }, h("summary", {}, "This request as a program"),
    h("div", { class: "toolbar" }, h("div", { class: "choice", role: "group", "aria-label": "Language" }, buttons), h("span", { class: "spring" }), h("div", { class: "together" }, strokes, copy)), block);
  return { element, refresh };
}

/** Copies the text of an element, also where the clipboard of the browser is closed to plain HTTP. */
async function copied(element) {
  if (navigator.clipboard) return navigator.clipboard.writeText(element.textContent).then(() => true, () => false);
  getSelection().selectAllChildren(element);
  return document.execCommand("copy");
}
