// Reads the contract of the service (OpenAPI 3.1): which endpoints take a file, and their fields in order.

const FORM = "multipart/form-data";

/** Fields of the editor, the drop zone and the preset menu, which therefore have no control of their own. */
const HANDLED = new Set(["file", "mask_file", "mask_url", "mask_mode", "box", "point", "not_point", "preset", "webhook_url"]);

/** Titles of tabs and their order; endpoints that are not named here follow with a title made from the path. */
const TITLES = {
  "/remove": "Cutout", "/studio-shot": "Studio shot", "/shadow": "Shadow", "/sticker": "Sticker", "/smart-crop": "Crop",
  "/headshot": "Headshot", "/replace-bg": "New background", "/replace-bg-ai": "Backdrop from words", "/upscale": "Upscale",
  "/face-restore": "Restore faces", "/mask": "Mask", "/video/remove": "Clip",
};

/** Loads the contract of this daemon. */
export async function load() {
  const reply = await fetch("openapi.json");
  if (!reply.ok) throw new Error(`the contract could not be loaded (${reply.status})`);
  return new Contract(await reply.json());
}

/** The contract, with its references resolved on demand. */
export class Contract {
  constructor(document) {
    this.document = document;
    const order = Object.keys(TITLES);
    const place = (endpoint) => (order.includes(endpoint.path) ? order.indexOf(endpoint.path) : order.length);
    this.endpoints = Object.entries(document.paths)
      .map(([path, item]) => this.#endpoint(path, item.post))
      .filter(Boolean)
      .sort((one, other) => place(one) - place(other));
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
    const all = Object.entries(schema.properties).map(([name, member]) => {
      return { name, required: (schema.required ?? []).includes(name), ...this.resolve(member) };
    });
    return {
      path,
      operation: operation.operationId,
      title: TITLES[path] ?? titled(path),
      summary: operation.summary,
      description: operation.description ?? "",
      // What the service says about fields that this endpoint refuses.
      note: schema.description ?? "",
      input: file.description ?? "",
      makesJob: "202" in operation.responses,
      takesMarks: "mask_file" in schema.properties,
      takesPreset: "preset" in schema.properties,
      // Fields that move the subject: the result then lies elsewhere than the photo.
      movesSubject: ["padding", "aspect", "offset"].some((name) => name in schema.properties),
      names: all.map(({ name }) => name),
      fields: all.filter((field) => !HANDLED.has(field.name) && !isConstant(field)),
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
