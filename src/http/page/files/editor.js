// The editor: strokes, a box and points on a photo, by mouse, finger, pen or keyboard.

import { announce, h } from "./dom.js";
import { draw } from "./marks.js";

const TOOLS = [
  { id: "keep", title: "Keep", sign: "+", about: "Brush over what belongs to the subject." },
  { id: "drop", title: "Remove", sign: "−", about: "Brush over what is background." },
  { id: "box", title: "Box", sign: "", about: "Draw a box around the subject; everything outside is background." },
  { id: "point", title: "Subject point", sign: "+", about: "Click on a part of the subject." },
  { id: "not_point", title: "Background point", sign: "−", about: "Click on a part of the background." },
];
const COLOURS = { keep: "#16c79a", drop: "#ff4d4f", box: "#ffd43b" };
/** Longest side of the canvas on the screen; marks are kept in pixels of the picture. */
const MAX_CANVAS = 1600;

/** What the person chose last, for the next photo. */
const chosen = { tool: "keep", size: 5 };

/** The editor of a photo. `onchange` runs after each mark, with a function that takes another tint: a picture with the subject's
 *  coverage as its alpha. */
export function editor({ photo, result, modes, onchange }) {
  const scale = Math.min(1, MAX_CANVAS / Math.max(photo.width, photo.height));
  const canvas = h("canvas", {
    class: "over marks", tabindex: 0, role: "application", "aria-roledescription": "drawing area",
    "aria-label": `Marks on ${photo.name}. Arrow keys move the cross, Space puts a mark or starts and ends a stroke, Escape gives up.`,
    width: Math.max(1, Math.round(photo.width * scale)), height: Math.max(1, Math.round(photo.height * scale)),
  });
  const context = canvas.getContext("2d");
  const image = h("img", { src: photo.url, alt: photo.name, draggable: "false" });
  const about = h("p", { class: "muted small-text" });
  let tint = null;
  let active = null;
  /** The pointer that draws what is active, where no key does. */
  let pointer = null;
  let cursor = null;

  const size = () => Math.max(2, Math.round((Math.max(photo.width, photo.height) * chosen.size) / 100));
  const inside = ([x, y]) => [clamp(Math.floor(x), photo.width), clamp(Math.floor(y), photo.height)];

  function begin(at) {
    const { tool } = chosen;
    if (tool === "point" || tool === "not_point") {
      active = { kind: tool, at: inside(at) };
    } else if (tool === "box") {
      active = { kind: "box", from: at, box: boxOf(at, at, photo) };
    } else {
      active = { kind: "stroke", keep: tool === "keep", size: size(), points: [at] };
    }
    paint();
  }

  function move(at) {
    if (active?.kind === "box") active.box = boxOf(active.from, at, photo);
    if (active?.kind === "stroke") active.points.push(at);
    paint();
  }

  function end() {
    if (!active) return;
    const mark = active;
    active = null;
    // A click without a movement is no box.
    const isBox = mark.kind === "box";
    if (!isBox || (mark.box[2] - mark.box[0] > 2 && mark.box[3] - mark.box[1] > 2)) {
      photo.marks.add(isBox ? { kind: "box", box: mark.box } : mark);
      changed({ box: "Box set.", stroke: "Stroke added.", point: "Subject point set.", not_point: "Background point set." }[mark.kind]);
    }
    paint();
  }

  /** Gives up what is being drawn. */
  function cancel() {
    active = pointer = null;
    paint();
  }

  function changed(text) {
    announce(text);
    update();
    onchange((picture) => { tint = picture; paint(); });
  }

  const position = (event) => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    return [((event.clientX - left) / width) * photo.width, ((event.clientY - top) / height) * photo.height];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    // A second finger makes it a pinch. Another kind of pointer, such as the palm beside a pen, is ignored.
    if (!event.isPrimary) return cancel();
    if (pointer !== null) return;
    canvas.setPointerCapture(event.pointerId);
    pointer = event.pointerId;
    cursor = null;
    begin(position(event));
  });
  canvas.addEventListener("pointermove", (event) => {
    if (event.pointerId !== pointer) return;
    for (const one of event.getCoalescedEvents?.() ?? [event]) move(position(one));
  });
  canvas.addEventListener("pointerup", (event) => {
    if (event.pointerId !== pointer) return;
    pointer = null;
    end();
  });
  canvas.addEventListener("pointercancel", (event) => { if (event.pointerId === pointer) cancel(); });
  canvas.addEventListener("keydown", (event) => {
    const step = Math.max(photo.width, photo.height) / (event.shiftKey ? 10 : 50);
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (way) {
      event.preventDefault();
      cursor ??= [photo.width / 2, photo.height / 2];
      cursor = [0, 1].map((axis) => Math.min(Math.max(cursor[axis] + way[axis] * step, 0), [photo.width, photo.height][axis] - 0.5));
      move(cursor);
    } else if (event.key === " " || event.key === "Enter") {
      event.preventDefault();
      cursor ??= [photo.width / 2, photo.height / 2];
      if (active) end();
      else begin(cursor);
      // A point has no end.
      if (active?.at) end();
    } else if (event.key === "Escape") {
      cancel();
    }
  });
  canvas.addEventListener("focus", paint);
  canvas.addEventListener("blur", () => { cursor = null; paint(); });

  function paint() {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    if (tint) paintTint(context, canvas, tint);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    const pixel = photo.width / (canvas.clientWidth || canvas.width);
    const strokes = [...photo.marks.list(), ...(active ? [active] : [])];
    context.globalAlpha = 0.6;
    for (const mark of strokes) if (mark.kind === "stroke") draw(context, mark, mark.keep ? COLOURS.keep : COLOURS.drop);
    context.globalAlpha = 1;
    const held = active?.kind === "box" ? active : strokes.find((mark) => mark.kind === "box");
    if (held) {
      const [left, top, right, bottom] = held.box;
      context.lineWidth = 5 * pixel;
      context.strokeStyle = "#000a";
      context.strokeRect(left, top, right - left, bottom - top);
      context.lineWidth = 2.5 * pixel;
      context.strokeStyle = COLOURS.box;
      context.strokeRect(left, top, right - left, bottom - top);
    }
    for (const mark of strokes) if (mark.at) dot(context, mark, pixel);
    if (cursor) cross(context, cursor, pixel);
  }

  const buttons = TOOLS.map(({ id, title, sign }) => h("button", {
    type: "button", "data-tool": id, "aria-label": title, onclick: () => { chosen.tool = id; cancel(); update(); },
  }, h("span", { class: `swatch tool-${id}`, "aria-hidden": "true" }, sign), h("span", { class: "spare" }, title)));
  const act = (name, title, run, text) => {
    const button = h("button", { type: "button", class: "button small", "data-act": name }, title);
    button.addEventListener("click", () => {
      run();
      changed(text);
      paint();
      // Keys go on: a button that can do nothing more loses the focus.
      if (button.disabled) canvas.focus();
    });
    return button;
  };
  const undo = act("undo", "Undo", () => photo.marks.undo(), "Undone.");
  const redo = act("redo", "Redo", () => photo.marks.redo(), "Redone.");
  const clear = act("clear", "Clear", () => photo.marks.clear(), "All marks removed.");
  const width = h("input", { type: "range", min: 1, max: 15, step: 0.5, value: chosen.size, "aria-label": "Brush size", oninput: (event) => { chosen.size = Number(event.target.value); } });
  const widths = h("label", { class: "small-text brush-size" }, "Size ", width);

  function update() {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.tool === chosen.tool));
    about.textContent = TOOLS.find((tool) => tool.id === chosen.tool).about;
    widths.hidden = chosen.tool !== "keep" && chosen.tool !== "drop";
    undo.disabled = !photo.marks.canUndo;
    redo.disabled = !photo.marks.canRedo;
    clear.disabled = photo.marks.isEmpty;
  }
  update();
  image.decode().then(paint, () => {});
  if (result) {
    const picture = new Image();
    picture.src = result.url;
    picture.decode().then(() => { tint ??= picture; paint(); }, () => {});
  }

  const element = h("div", { class: "stage" },
    h("div", { class: "toolbar" }, modes, h("div", { class: "choice", role: "group", "aria-label": "Tool" }, buttons)),
    about,
    h("div", { class: "toolbar" }, widths, h("span", { class: "spring" }), undo, redo, clear),
    h("div", { class: "canvas" }, h("div", { class: "frame" }, image, canvas)));
  element.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey)) return;
    const which = { z: event.shiftKey ? redo : undo, Z: redo, y: redo }[event.key];
    if (which && !which.disabled) { event.preventDefault(); which.click(); }
  });
  return element;
}

const clamp = (value, length) => Math.min(Math.max(value, 0), length - 1);

/** The box between two places, within the picture, in whole pixels. */
function boxOf([x1, y1], [x2, y2], { width, height }) {
  const within = (value, length) => Math.min(Math.max(Math.round(value), 0), length);
  const xs = [within(x1, width), within(x2, width)].sort((one, other) => one - other);
  const ys = [within(y1, height), within(y2, height)].sort((one, other) => one - other);
  return [xs[0], ys[0], xs[1], ys[1]];
}

/** Dims what the last result removed. */
function paintTint(context, { width, height }, image) {
  context.globalCompositeOperation = "source-over";
  context.fillStyle = "#000";
  context.globalAlpha = 0.55;
  context.fillRect(0, 0, width, height);
  context.globalAlpha = 1;
  context.globalCompositeOperation = "destination-out";
  context.drawImage(image, 0, 0, width, height);
  context.globalCompositeOperation = "source-over";
}

function dot(context, { kind, at: [x, y] }, pixel) {
  context.beginPath();
  context.arc(x + 0.5, y + 0.5, 8 * pixel, 0, 2 * Math.PI);
  context.fillStyle = kind === "point" ? COLOURS.keep : COLOURS.drop;
  context.fill();
  context.lineWidth = 2 * pixel;
  context.strokeStyle = "#fff";
  context.stroke();
  // A plus and a minus: the colours alone would not do.
  context.beginPath();
  context.moveTo(x + 0.5 - 4 * pixel, y + 0.5);
  context.lineTo(x + 0.5 + 4 * pixel, y + 0.5);
  if (kind === "point") {
    context.moveTo(x + 0.5, y + 0.5 - 4 * pixel);
    context.lineTo(x + 0.5, y + 0.5 + 4 * pixel);
  }
  context.stroke();
}

function cross(context, [x, y], pixel) {
  for (const [width, colour] of [[4, "#000"], [1.5, "#fff"]]) {
    context.beginPath();
    context.moveTo(x - 14 * pixel, y);
    context.lineTo(x + 14 * pixel, y);
    context.moveTo(x, y - 14 * pixel);
    context.lineTo(x, y + 14 * pixel);
    context.lineWidth = width * pixel;
    context.strokeStyle = colour;
    context.stroke();
  }
}
