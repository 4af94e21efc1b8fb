// Marks of a person on a photo (strokes, a box, points) as a list with undo, and as fields of a request.
//
// Coordinates are pixels of the upright picture. The order of the marks is kept; a second box replaces the first.

/** The marks of one photo. */
export class Marks {
  #done = [];
  #undone = [];

  /** Adds `{ kind: "stroke", keep, size, points }`, `{ kind: "box", box }` or `{ kind: "point" | "not_point", at }`. */
  add(mark) {
    this.#done.push(mark);
    this.#undone = [];
  }

  undo() {
    if (this.#done.length) this.#undone.push(this.#done.pop());
  }

  redo() {
    if (this.#undone.length) this.#done.push(this.#undone.pop());
  }

  /** Removes all marks; `undo` brings them back. */
  clear() {
    if (!this.isEmpty) this.add({ kind: "clear" });
  }

  get canUndo() { return this.#done.length > 0; }
  get canRedo() { return this.#undone.length > 0; }
  get isEmpty() { return this.list().length === 0; }

  /** The marks that hold, in order. */
  list() {
    const from = this.#done.findLastIndex((mark) => mark.kind === "clear") + 1;
    const marks = this.#done.slice(from);
    const box = marks.findLast((mark) => mark.kind === "box");
    return marks.filter((mark) => mark.kind !== "box" || mark === box);
  }

  /** Whether `marks`, an earlier `list()`, still are those that hold. */
  areStill(marks) {
    const now = this.list();
    return now.length === marks.length && now.every((mark, at) => mark === marks[at]);
  }

  /** The fields of a request, as pairs; strokes are in `mask`. `scale` is the size of the picture sent in sizes of the photo. */
  fields(scale = 1) {
    const marks = this.list();
    const pairs = [];
    for (const { kind, box, at } of marks) {
      // Rounded so that points lie within the box, and the box within a picture whose sides are rounded up.
      if (kind === "box") pairs.push(["box", box.map((value, side) => (side < 2 ? Math.floor : Math.ceil)(value * scale)).join(",")]);
      if (kind === "point" || kind === "not_point") pairs.push([kind, at.map((value) => Math.floor(value * scale)).join(",")]);
    }
    if (this.hasStrokes) pairs.push(["mask_mode", "hint"]);
    return pairs;
  }

  get hasStrokes() { return this.list().some((mark) => mark.kind === "stroke"); }

  /** The strokes, scaled, as a PNG of the picture's size: white keeps, black removes, transparent leaves it to the network. */
  async mask(width, height, scale = 1) {
    if (!this.hasStrokes) return null;
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    for (const mark of this.list()) if (mark.kind === "stroke") draw(context, mark, mark.keep ? "#fff" : "#000");
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }
}

/** Draws a stroke in pixels of the picture. */
export function draw(context, { points, size }, colour) {
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = size;
  context.lineCap = context.lineJoin = "round";
  context.beginPath();
  context.moveTo(...points[0]);
  for (const point of points.slice(1)) context.lineTo(...point);
  if (points.length === 1) context.lineTo(points[0][0] + 0.01, points[0][1]);
  context.stroke();
}
