// Reads the contract of the service (OpenAPI 3.1): which endpoints take a file, and their fields in order.

import { helpOf } from "./help.js";

const FORM = "multipart/form-data";

/** Fields of the editor, the drop zone and the preset menu, which therefore have no control of their own. */
const HANDLED = new Set(["file", "mask_file", "mask_url", "mask_mode", "box", "point", "not_point", "preset", "webhook_url"]);

/** Titles of tabs and their order; endpoints that are not named here follow with a title made from the path. */
const TITLES = {
  "/remove": "Cutout", "/studio-shot": "Studio shot", "/shadow": "Shadow", "/sticker": "Sticker", "/smart-crop": "Crop",
  "/headshot": "Headshot", "/replace-bg": "New background", "/replace-bg-ai": "Backdrop from words", "/upscale": "Upscale",
  "/face-restore": "Restore faces", "/mask": "Mask", "/video/remove": "Clip",
};

/** What most people come for: an endpoint with fields that are shown first, `null` where its default holds. */
const PURPOSES = [
  { id: "transparent", title: "Transparent", about: "no background", path: "/remove", values: { format: null, edge: null, max_dim: null, width: null } },
  { id: "marketplace", title: "Marketplace", about: "white, square, 1200 px, no shadow", path: "/studio-shot", values: { bg_color: "#FFFFFF", aspect: "1:1", width: 1200, shadow: false, padding: null, format: null } },
  { id: "studio", title: "Studio", about: "plain colour, soft shadow", path: "/studio-shot", values: { bg_color: null, aspect: null, padding: null, shadow: true, format: null, max_dim: null, width: null } },
  // 35 by 45 mm at 600 dots an inch; offices refuse retouched faces.
  { id: "passport", title: "Passport photo", about: "white, 35 × 45 mm", path: "/headshot", values: { bg_color: "#FFFFFF", aspect: "35:45", width: 827, restore_face: false, format: null } },
];

/** Settings of this daemon: largest photo, configured image APIs, whether prices are shown. */
export const daemon = {};

/** Loads the contract and the settings of this daemon. */
export async function load() {
  const [document, settings] = await Promise.all(["openapi.json", "assets/daemon.json"].map(async (path) => {
    const reply = await fetch(path);
    if (!reply.ok) throw new Error(`${path} could not be loaded (${reply.status})`);
    return reply.json();
  }));
  Object.assign(daemon, settings);
  return new Contract(document);
}

/** The contract, with its references resolved on demand. */
class Contract {
  constructor(document) {
    this.document = document;
    const order = Object.keys(TITLES);
    const place = (endpoint) => (order.includes(endpoint.path) ? order.indexOf(endpoint.path) : order.length);
    this.endpoints = Object.entries(document.paths)
      .map(([path, item]) => this.#endpoint(path, item.post))
      .filter(Boolean)
      .sort((one, other) => place(one) - place(other));
    this.purposes = PURPOSES.map((purpose) => ({ ...this.endpoints.find(({ path }) => path === purpose.path), ...purpose }));
  }

  /** A schema with its reference resolved. `shared` is the name of the component that it refers to. */
  resolve(schema) {
    if (!schema?.$ref) return schema;
    const path = schema.$ref.split("/").slice(1);
    const target = path.reduce((node, key) => node[key], this.document);
    return { ...this.resolve(target), ...schema, $ref: undefined, shared: path.at(-1) };
  }

  /** Names of the members that `/estimate` takes beside the endpoint. */
  get estimateFields() {
    const body = this.document.paths["/estimate"]?.post.requestBody.content["application/json"].schema;
    return Object.keys(this.resolve(body)?.properties ?? {});
  }

  #endpoint(path, operation) {
    const schema = this.resolve(operation?.requestBody?.content?.[FORM]?.schema);
    const file = this.resolve(schema?.properties?.file);
    // Where a file may be sent but need not be, the endpoint is about addresses.
    if (file?.format !== "binary" || !schema.required?.includes("file")) return null;
    // The description of a form names the fields that its endpoint refuses.
    const refused = [...(schema.description ?? "").matchAll(/`([a-z_]+)/g)].map(([, name]) => name);
    const all = Object.entries(schema.properties).map(([name, member]) => {
      const field = { name, required: (schema.required ?? []).includes(name), ...this.resolve(member) };
      if (name === "model") field.enum = field.enum.filter((model) => model === field.default || daemon.models.includes(model));
      return { ...field, help: helpOf(path, field) };
    });
    return {
      path,
      operation: operation.operationId,
      title: TITLES[path] ?? titled(path),
      summary: operation.summary,
      input: file.description ?? "",
      makesJob: "202" in operation.responses,
      takesMarks: "mask_file" in schema.properties,
      takesPreset: "preset" in schema.properties,
      // Fields that move the subject: the result then lies elsewhere than the photo.
      movesSubject: ["padding", "aspect", "offset"].some((name) => name in schema.properties),
      names: all.map(({ name }) => name),
      fields: all.filter((field) => !HANDLED.has(field.name) && !refused.includes(field.name) && !isConstant(field)),
    };
  }
}

/** Whether a field has one value only. */
function isConstant(field) {
  return field.enum?.length === 1 && field.default === field.enum[0];
}

/** `/face-restore` as `Face restore`. */
function titled(path) {
  const words = path.slice(1).replaceAll(/[/_-]/g, " ");
  return words[0].toUpperCase() + words.slice(1);
}
