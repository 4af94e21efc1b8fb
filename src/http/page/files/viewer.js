// Shows a photo and its result: a before/after slider where both have the same geometry, else side by side; on a backdrop
// of checkers, a colour or a picture; and offers the result for download.

import { daemon } from "./contract.js";
import { bytes, dollars, h, save, warning } from "./dom.js";

/** What is behind transparent pixels, for all photos. */
const backdrop = { kind: "checkers", colour: "#ffffff", url: null };

const NAMES = { "image/png": "png", "image/jpeg": "jpg", "image/webp": "webp" };

/** The name under which a result is saved. */
export function fileName(photo, result, path) {
  const stem = photo.name.replace(/\.[^.]+$/, "");
  return `${stem}-${path.split("/").filter(Boolean).join("-")}.${NAMES[result.blob.type] ?? "png"}`;
}

/** The viewer of a photo, with its result for the endpoint where there is one. */
export function viewer({ photo, result, endpoint, modes, busy, message }) {
  const canvas = h("div", { class: "canvas" });
  const element = h("div", { class: "stage" }, canvas);
  if (!result) {
    if (modes) element.prepend(h("div", { class: "toolbar" }, modes));
    const instead = message ? photo.name : `This browser cannot show ${photo.name}; its result will be shown.`;
    canvas.append(photo.shown ? h("div", { class: "frame" }, h("img", { src: photo.url, alt: photo.name })) : h("p", { class: "muted instead" }, instead));
  } else {
    const shown = photo.shown && isAligned(photo, result, endpoint) ? compared(photo, result) : pair(photo, result);
    canvas.append(shown.element);
    element.prepend(toolbar({ photo, result, endpoint, modes, refresh: shown.refresh }));
    element.append(facts(result));
    element.append(...result.warnings.map(warning));
    if (result.words !== null && result.words !== "none") element.append(h("p", { class: "note" }, `Words used for the backdrop: ${result.words}.`));
  }
  if (photo.note) element.append(h("p", { class: "note" }, photo.note));
  if (busy) canvas.append(h("div", { class: "busy" }, h("div", { class: "spinner" }), h("span", { class: "unseen" }, "Working")));
  if (message) element.append(h("p", { class: "note bad", role: "alert" }, message));
  return element;
}

/** Whether a result has the geometry of its photo, enlarged or reduced. */
export function isAligned(photo, { width, height }, { movesSubject }) {
  return !movesSubject && Math.abs(photo.width * height - photo.height * width) <= Math.max(photo.width, photo.height, width, height);
}

function percent(share) {
  return share < 0.01 ? "under 1 %" : `${Math.round(share * 100)} %`;
}

function compared(photo, result) {
  const behind = h("div", { class: "backdrop" });
  const after = h("img", { class: "result", src: result.url, alt: `Result for ${photo.name}`, draggable: "false", width: photo.width, height: photo.height });
  const before = h("img", { class: "over", src: photo.url, alt: "", draggable: "false" });
  const divider = h("div", { class: "divider" });
  const slider = h("input", { class: "slider", type: "range", min: 0, max: 100, step: 1, value: result.split ?? 50, "aria-label": "Before and after", "aria-valuetext": "" });
  const left = h("span", { class: "corner left", "aria-hidden": "true" }, "Before");
  const right = h("span", { class: "corner right", "aria-hidden": "true" }, "After");
  const move = () => {
    const at = Number(slider.value);
    result.split = at;
    before.style.clipPath = `inset(0 ${100 - at}% 0 0)`;
    divider.style.left = `${at}%`;
    left.hidden = at < 15;
    right.hidden = at > 85;
    slider.setAttribute("aria-valuetext", `${at} percent original, ${100 - at} percent result`);
  };
  slider.addEventListener("input", move);
  move();
  const refresh = () => dress(behind);
  refresh();
  return { element: h("div", { class: "frame" }, behind, after, before, slider, divider, left, right), refresh };
}

function pair(photo, result) {
  const behind = h("div", { class: "backdrop" });
  const after = h("div", { class: "frame" }, behind, h("img", { class: "result", src: result.url, alt: `Result for ${photo.name}` }));
  const figure = (content, text) => h("figure", {}, content, h("figcaption", { class: "muted small-text" }, text));
  const before = photo.shown ? figure(h("div", { class: "frame" }, h("img", { src: photo.url, alt: photo.name })), "Before") : null;
  const refresh = () => dress(behind);
  refresh();
  return { element: h("div", { class: "pair" }, before, figure(after, "After")), refresh };
}

/** Gives an element the chosen backdrop. */
function dress(element) {
  element.classList.toggle("checkers", backdrop.kind === "checkers");
  element.style.backgroundColor = backdrop.kind === "colour" ? backdrop.colour : "";
  element.style.backgroundImage = backdrop.kind === "picture" ? `url("${backdrop.url}")` : "";
}

function toolbar({ photo, result, endpoint, modes, refresh }) {
  const name = fileName(photo, result, endpoint.path);
  const download = h("button", { type: "button", class: "button primary", "data-act": "download", onclick: () => save(result.blob, name) }, "Download");
  if (!result.transparent) return h("div", { class: "toolbar" }, modes, h("span", { class: "spring" }), download);
  const colour = h("input", { type: "color", value: backdrop.colour, "aria-label": "Backdrop colour" });
  const picture = h("input", { type: "file", accept: "image/*", "aria-label": "Backdrop picture", class: "unseen", tabindex: -1 });
  const composed = h("button", { type: "button", class: "button", "data-act": "composed", onclick: async () => save(await compose(result), name.replace(/\.[^.]+$/, "-backdrop.png")) }, "Download with backdrop");
  const kinds = [["checkers", "Checkers"], ["colour", "Colour"], ["picture", "Picture"]];
  const buttons = kinds.map(([kind, title]) => h("button", { type: "button", "data-backdrop": kind, "aria-label": title, onclick: () => use(kind) },
    h("span", { class: `swatch backdrop-${kind}` }), h("span", { class: "spare" }, title)));
  const update = () => {
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.backdrop === backdrop.kind)));
    colour.hidden = backdrop.kind !== "colour";
    composed.hidden = backdrop.kind === "checkers";
    refresh();
  };
  const use = (kind) => {
    if (kind === "picture") return picture.click();
    backdrop.kind = kind;
    return update();
  };
  colour.addEventListener("input", () => { backdrop.colour = colour.value; update(); });
  picture.addEventListener("change", () => {
    if (!picture.files[0]) return;
    if (backdrop.url) URL.revokeObjectURL(backdrop.url);
    backdrop.url = URL.createObjectURL(picture.files[0]);
    backdrop.kind = "picture";
    update();
  });
  update();
  return h("div", { class: "toolbar" }, modes, h("div", { class: "choice", role: "group", "aria-label": "Backdrop" }, buttons), colour, picture, h("span", { class: "spring" }), h("div", { class: "together" }, composed, download));
}

/** The result on the chosen backdrop, made here without a request. */
async function compose(result) {
  const canvas = h("canvas", { width: result.width, height: result.height });
  const context = canvas.getContext("2d");
  if (backdrop.kind === "colour") {
    context.fillStyle = backdrop.colour;
    context.fillRect(0, 0, canvas.width, canvas.height);
  } else {
    const image = new Image();
    image.src = backdrop.url;
    await image.decode();
    const scale = Math.max(canvas.width / image.naturalWidth, canvas.height / image.naturalHeight);
    const [width, height] = [image.naturalWidth * scale, image.naturalHeight * scale];
    context.drawImage(image, (canvas.width - width) / 2, (canvas.height - height) / 2, width, height);
  }
  context.drawImage(await createImageBitmap(result.blob), 0, 0);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function facts(result) {
  const { headers } = result;
  const fact = (title, value) => (value === null || value === "" ? null : h("span", {}, `${title} `, h("b", {}, value)));
  const cost = headers.get("x-service-cost");
  const rows = [...headers].filter(([name]) => name.startsWith("x-service-") || name === "server-timing" || name === "x-request-id");
  return h("div", {},
    h("p", { class: "facts" },
      fact("Size", `${result.width} × ${result.height}, ${bytes(result.blob.size)}`),
      fact("Time", `${(Number(headers.get("x-service-latency")) / 1000).toFixed(1)} s`),
      result.uncertainty === null ? null : fact("Risk of a bad cutout", percent(result.uncertainty)),
      fact("Edge", headers.get("x-service-edge")),
      cost === null || !daemon.show_prices ? null : fact("Cost", dollars(Number(cost)))),
    h("details", { class: "facts-more small-text" }, h("summary", {}, "Details of the reply"),
      h("table", {}, h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("td", {}, h("code", {}, name)), h("td", {}, value)))))));
}
