// Says what a field does, for people: the first sentence of the contract, or words of the page where that is for programs.

import { firstSentence } from "./dom.js";

const HELP = {
  format: "PNG and WebP can be transparent, JPG cannot.",
  "/video/remove format": "WebM and MOV are transparent and have sound; MP4 needs a background colour.",
  channels: "`rgba` is the cutout, `alpha` its shape in grey.",
  edge: "`soft` for hair and fur, `hard` for products; `auto` chooses.",
  matting: "`closed-form`: fine edges. `none`: faster, rougher.",
  decontaminate: "Removes remains of the old background along the edge.",
  engine: "`product-v1`: clean, hard edges for products that are not see-through; slower.",
  segmentation_model: "Name of the model that cuts out. Leave it empty for the usual one.",
  quality: "Of JPG and WebP; 100 makes the largest file.",
  compression: "`best` takes longer for a smaller PNG of the same picture.",
  max_dim: "Only shrinks, to so many pixels. To enlarge, set the width.",
  width: "In pixels. Alone it keeps the proportions, and enlarges where needed.",
  height: "In pixels. With the width it makes an exact box.",
  keep_alpha: "Keeps the transparency of a picture that is cut out already.",
  despill: "Removes green or blue light of the old background from the edge.",
  watermark: "Web address (https) of a picture for the lower right corner.",
  watermark_opacity: "0 is invisible, 1 is solid.",
  aspect: "Width to height of the result.",
  anchor: "Where the photo cuts the subject off: `center` leaves space, `auto` lets it touch the border.",
  transparent: "Keeps no background: colour, blur and shadow have no effect.",
  "/studio-shot padding": "Space around the subject: pixels, or a share such as 10%.",
  padding: "Space around the subject, in pixels of the photo.",
  blur: "How soft the edge of the shadow is, in pixels.",
  opacity: "0 is invisible, 1 is solid.",
  stroke_width: "In pixels of the photo; 0 draws no outline.",
  bg_url: "Web address (https) of a picture, where no file is chosen.",
  model: "`auto` takes the first model that your account may use.",
  smoothing: "Calms flicker between frames; 0 is off.",
};

/** The help of a field of an endpoint; empty where there is none. */
export function helpOf(path, { name, description, enum: values }) {
  // Nothing to choose between: each format can be transparent.
  if (name === "format" && !values.includes("jpg") && !values.includes("mp4")) return "";
  return HELP[`${path} ${name}`] ?? HELP[name] ?? firstSentence(description ?? "");
}
