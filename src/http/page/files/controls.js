// Makes a control for a field of the contract and reads its value.
//
// The kind of control follows from the schema: a choice, a switch, a number with a range, a colour, text or a file. Only values
// that a person changed are sent, so that requests stay short and presets keep their effect. A value that was changed back is
// sent too: some defaults depend on other fields, so that the one of the contract is not always what the service would use.

import { h, marked } from "./dom.js";

/** Shared fields that people change often; the other shared ones are under "More settings". */
const OFTEN = new Set(["Format", "OpaqueFormat", "Edge", "MaxDim", "Width", "Height", "VideoFormat", "VideoBgColor", "Smoothing", "Audio"]);
/** Usual aspect ratios; others are typed. */
const ASPECTS = ["1:1", "4:5", "3:4", "2:3", "4:3", "3:2", "16:9", "9:16", "35:45"];
const WORDS = { bg: "background", dim: "side", url: "address", max: "longest" };

/** `bg_color` as `Background color`. */
function titleOf(name) {
  const words = name.split("_").map((word) => WORDS[word] ?? word).join(" ");
  return words[0].toUpperCase() + words.slice(1);
}

/** Whether a field of an endpoint, or of a purpose, is shown without opening "More settings". */
export const isFrequent = (field, { values }) => (values ? field.name in values : (!field.shared && field.name !== "segmentation_model") || OFTEN.has(field.shared) || isFile(field));

const isFile = (field) => field.format === "binary";

/** Endings of pictures for which some systems know no type: HEIC. */
const UNTYPED = [".heic", ".heif", ".hif"];

/** What a file dialog offers as pictures. */
export const PICTURES = ["image/*", ...UNTYPED].join();

export const isPicture = (file) => file.type.startsWith("image/") || UNTYPED.some((end) => file.name.toLowerCase().endsWith(end));

/** Levels that `true` means where it is not the maximum. */
const LEVEL_OF_TRUE = { bg_blur: 50 };

/** Whether a value means `true`: presets keep values as they were sent. */
export const isTrue = (value) => Number(value) > 0 || /^(true|yes|on)$/i.test(value);

/** A control: `field`, `element`, `value()` (`undefined` where nothing is sent), `isCleared()`, `valid()`, `base(value)`, `set(value)`. */
export function control(field, onchange) {
  const id = `field-${field.name}`;
  const help = field.help ? h("p", { class: "help", id: `${id}-help` }, marked(field.help)) : null;
  const described = help ? `${id}-help` : null;
  let touched = false;
  const made = make(field, { id, described, onchange: () => { touched = true; onchange(); } });
  // As the control reads it, which may differ from the text of a preset.
  let base = made.read();
  if (help) made.element.append(help);
  return {
    field,
    element: made.element,
    value() {
      const value = made.read();
      return value === "" || (value === base && !touched) ? undefined : value;
    },
    /** Whether a person emptied it. */
    isCleared: () => touched && made.read() === "",
    valid() {
      const bad = made.inputs.find((input) => !input.checkValidity());
      made.element.classList.toggle("wrong", Boolean(bad));
      if (bad) bad.closest("details")?.setAttribute("open", "");
      bad?.reportValidity();
      return !bad;
    },
    /** Takes `value`, or the field's default, as what holds where nothing is sent. */
    base(value) {
      made.write(value ?? field.default);
      base = made.read();
      touched = false;
    },
    /** Takes `value` as if a person had chosen it. */
    set(value) {
      made.write(value);
      touched = true;
    },
  };
}

function make(field, context) {
  const kinds = field.anyOf ?? [field];
  const is = (type) => kinds.some((kind) => kind.type === type);
  if (isFile(field)) return file(field, context);
  if (field.enum) return field.enum.length <= 4 ? choice(field, context) : menu(field, context);
  if (is("boolean") && is("integer")) return level(field, kinds.find((kind) => kind.type === "integer"), context);
  if (is("boolean")) return toggle(field, context);
  if (field.type === "integer" || field.type === "number") return number(field, context);
  if (field.name === "aspect") return aspect(field, kinds, context);
  if (field.examples?.some((example) => /^#[0-9a-f]{6}$/i.test(example))) return colour(field, context);
  return text(field, kinds, context);
}

const label = (field, id) => h("label", { for: id }, titleOf(field.name), field.required ? " (required)" : null);

function choice(field, { id, described, onchange }) {
  // Without a default the service decides when the field is not sent.
  const values = field.default === undefined ? ["", ...field.enum] : field.enum;
  const inputs = values.map((value) => {
    // Not `change`: a click on the default, which is chosen already, is a choice too.
    return h("input", { type: "radio", name: id, value, checked: value === (field.default ?? ""), onclick: onchange });
  });
  const labels = values.map((value, at) => h("label", {}, inputs[at], value === "" ? "default" : String(value)));
  const element = h("fieldset", { class: "field", "aria-describedby": described },
    h("legend", {}, titleOf(field.name)), h("div", {}, h("div", { class: "choice" }, labels)));
  return {
    element, inputs,
    read: () => inputs.find((input) => input.checked)?.value,
    write: (value) => inputs.forEach((input) => { input.checked = input.value === String(value ?? ""); }),
  };
}

function menu(field, { id, described, onchange }) {
  const input = h("select", { id, "aria-describedby": described, onchange }, field.enum.map((value) => {
    return h("option", { value, selected: value === field.default }, String(value));
  }));
  return plain(h("div", { class: "field" }, label(field, id), input), input);
}

function toggle(field, { id, described, onchange }) {
  const input = h("input", { type: "checkbox", id, checked: field.default === true, "aria-describedby": described, onchange });
  const element = h("div", { class: "field check" }, input, label(field, id));
  return { element, inputs: [input], read: () => String(input.checked), write: (value) => { input.checked = isTrue(value); } };
}

/** Off, or a level: what is `boolean` or `integer` in the contract. */
function level(field, integer, { id, described, onchange }) {
  const { minimum = 0, maximum = 100 } = integer;
  const smallest = Math.max(minimum, 1);
  const amount = (value) => {
    const level = Number(String(value));
    if (level >= smallest) return level;
    return isTrue(value) ? LEVEL_OF_TRUE[field.name] ?? maximum : 0;
  };
  const input = h("input", { type: "range", id, min: 0, max: maximum, value: amount(field.default), "aria-describedby": described });
  const shown = h("output", { for: id });
  const show = () => { shown.textContent = Number(input.value) < smallest ? "off" : input.value; };
  input.addEventListener("input", () => { show(); onchange(); });
  show();
  const read = () => {
    const value = Number(input.value);
    if (value >= smallest) return String(value);
    return typeof field.default === "boolean" ? "false" : "0";
  };
  const element = h("div", { class: "field" }, label(field, id), h("div", { class: "row" }, input, shown));
  return { element, inputs: [input], read, write: (value) => { input.value = amount(value); show(); } };
}

function number(field, { id, described, onchange }) {
  const { minimum, maximum, type } = field;
  const step = type === "integer" ? 1 : 0.01;
  const input = h("input", {
    type: "number", id, min: minimum, max: maximum, step: type === "integer" ? 1 : "any", value: field.default ?? "",
    placeholder: field.default === undefined ? "auto" : null, "aria-describedby": described, inputmode: type === "integer" ? "numeric" : "decimal",
  });
  input.addEventListener("input", onchange);
  const hasRange = field.default !== undefined && maximum - minimum <= 400;
  if (!hasRange) return plain(h("div", { class: "field" }, label(field, id), input), input);
  const range = h("input", { type: "range", min: minimum, max: maximum, step, value: field.default, "aria-label": titleOf(field.name), "aria-describedby": described });
  range.addEventListener("input", () => { input.value = range.value; onchange(); });
  input.addEventListener("input", () => { range.value = input.value === "" ? field.default : input.value; });
  const made = plain(h("div", { class: "field" }, label(field, id), h("div", { class: "row" }, range, input)), input);
  return { ...made, write: (value) => { input.value = value ?? ""; range.value = value ?? field.default; } };
}

function colour(field, { id, described, onchange }) {
  const input = h("input", {
    type: "text", id, value: field.default ?? "", maxlength: field.maxLength, spellcheck: "false", autocomplete: "off",
    placeholder: "none", "aria-describedby": described, list: `${id}-list`,
  });
  const picker = h("input", { type: "color", "aria-label": `${titleOf(field.name)}, picker` });
  const follow = () => {
    const value = opaque(input.value.trim());
    picker.classList.toggle("unset", value === null);
    if (value !== null) picker.value = value;
  };
  input.addEventListener("input", () => { follow(); onchange(); });
  picker.addEventListener("input", () => { input.value = picker.value; onchange(); });
  follow();
  const element = h("div", { class: "field" }, label(field, id), h("div", { class: "row colour" }, picker, input), list(field, id, field.examples));
  const made = plain(element, input);
  return { ...made, write: (value) => { input.value = value ?? ""; follow(); } };
}

/** A colour as `#rrggbb`, which is all that a picker can show; null for others and for what is no colour. */
function opaque(text) {
  if (!CSS.supports("color", text)) return null;
  const context = document.createElement("canvas").getContext("2d");
  context.fillStyle = text;
  return context.fillStyle.startsWith("#") ? context.fillStyle : null;
}

function text(field, kinds, { id, described, onchange }) {
  const kind = kinds.find((one) => one.type === "string") ?? {};
  const examples = field.examples ?? kind.examples ?? [];
  const long = kind.maxLength >= 300 && kind.maxLength < 2000;
  const input = h(long ? "textarea" : "input", {
    id, type: long ? null : "text", maxlength: kind.maxLength, required: field.required, placeholder: field.default ?? examples[0],
    "aria-describedby": described, list: long || !examples.length ? null : `${id}-list`, autocomplete: "off",
    pattern: long || !kind.pattern ? null : `(?:${kind.pattern})`,
  });
  input.value = field.default ?? "";
  input.addEventListener("input", onchange);
  return plain(h("div", { class: "field" }, label(field, id), input, long ? null : list(field, id, examples)), input);
}

/** A list of usual ratios, and a text for others. */
function aspect(field, kinds, context) {
  const { id, onchange } = context;
  const typed = text(field, kinds, { ...context, id: `${id}-typed` });
  const [input] = typed.inputs;
  input.setAttribute("aria-label", "Other aspect ratio");
  input.placeholder = "such as 1.91:1";
  const values = [...(field.default ? [] : [""]), ...ASPECTS, "other"];
  const menu = h("select", { id, "aria-describedby": context.described, onchange: () => { input.value = menu.value === "other" ? "" : menu.value; show(); onchange(); } },
    values.map((value) => h("option", { value }, value || "as it is")));
  const show = () => { input.hidden = menu.value !== "other"; };
  const write = (value = "") => {
    input.value = value;
    menu.value = values.includes(value) ? value : "other";
    show();
  };
  write(field.default);
  return { ...typed, element: h("div", { class: "field" }, label(field, id), menu, input), write };
}

function file(field, { id, described, onchange }) {
  const input = h("input", { type: "file", id, accept: PICTURES, "aria-describedby": described, onchange });
  const element = h("div", { class: "field" }, label(field, id), input);
  return { element, inputs: [input], read: () => input.files[0], write: () => { input.value = ""; } };
}

function list(field, id, examples) {
  return examples?.length ? h("datalist", { id: `${id}-list` }, examples.map((value) => h("option", { value }))) : null;
}

function plain(element, input) {
  return { element, inputs: [input], read: () => input.value.trim(), write: (value) => { input.value = value ?? ""; } };
}
