// Generated from schemas/openapi.yaml by clients/generate.py; do not edit.

import type { BoxField, CallOptions, FileInput, Picture, PointsField } from "./fields.js";
import type { ImageResult } from "./image.js";

/** Version of the contract. */
export const CONTRACT_VERSION = "0.1.0";

/** Method, path, and whether it takes an Idempotency-Key. */
export const OPERATIONS = {
  remove: ["POST", "/remove", true],
  removeUrl: ["POST", "/remove-url", true],
  removeBatch: ["POST", "/remove-batch", true],
  removeBatchUrl: ["POST", "/remove-batch-url", true],
  mask: ["POST", "/mask", true],
  replaceBg: ["POST", "/replace-bg", true],
  replaceBgAi: ["POST", "/replace-bg-ai", true],
  studioShot: ["POST", "/studio-shot", true],
  smartCrop: ["POST", "/smart-crop", true],
  shadow: ["POST", "/shadow", true],
  sticker: ["POST", "/sticker", true],
  headshot: ["POST", "/headshot", true],
  faceRestore: ["POST", "/face-restore", true],
  upscale: ["POST", "/upscale", true],
  videoRemove: ["POST", "/video/remove", true],
  estimate: ["POST", "/estimate", false],
  listPresets: ["GET", "/presets", false],
  savePreset: ["POST", "/presets", false],
  deletePreset: ["DELETE", "/presets", false],
  bulk: ["POST", "/bulk", true],
  listJobs: ["GET", "/jobs", false],
  job: ["GET", "/jobs/{job_id}", false],
  changeJob: ["PATCH", "/jobs/{job_id}", false],
  deleteJob: ["DELETE", "/jobs/{job_id}", false],
  models: ["GET", "/models", false],
  account: ["GET", "/account", false],
  usage: ["GET", "/usage", false],
  result: ["GET", "/results/{object}", false],
  openapi: ["GET", "/openapi.yaml", false],
  openapiJson: ["GET", "/openapi.json", false],
  docs: ["GET", "/docs", false],
} as const;

/** An operation of the contract. */
export type Operation = keyof typeof OPERATIONS;

/** Codes of errors. */
export type ErrorCode =
  | "invalid_parameter"
  | "invalid_image"
  | "invalid_endpoint"
  | "unauthorized"
  | "payment_required"
  | "forbidden"
  | "not_found"
  | "method_not_allowed"
  | "request_timeout"
  | "conflict"
  | "idempotency_conflict"
  | "payload_too_large"
  | "output_too_large"
  | "unsupported_media_type"
  | "no_subject_detected"
  | "no_face_detected"
  | "fetch_failed"
  | "rate_limit_exceeded"
  | "headers_too_large"
  | "internal_error"
  | "upstream_failed"
  | "unavailable";

/** Finer than the code, where it is known. */
export type Reason =
  | "address"
  | "timeout"
  | "tls"
  | "status"
  | "quota_exhausted"
  | "plan_required"
  | "out_of_scope";

/** Fields of every endpoint of pictures. */
export interface SharedFields {
  /** Try `high_recall` if faint parts are missing. */
  detect?: "standard" | "high_recall" | undefined;
  /**
   * Removes background that was kept near the edge, by the picture's own colours. Helps least where subject and
   * background are alike, as white on white, and may remove dark undersides of thick products.
   */
  decontaminate?: boolean | undefined;
  /**
   * `product-v1` is for flat, opaque products: it segments the subject and its edge again at a higher resolution,
   * closes holes that do not show background, and makes the edge hard, whatever `edge` is. Slower, and unsuitable for
   * hair, fur and glass. Without it the default pipeline runs.
   */
  engine?: "product-v1" | undefined;
  /**
   * The model that cuts out, by a name of `GET /models`, with or without its version. The header `x-service-model` is
   * an alternative. Without either the account's model cuts out.
   */
  segmentation_model?: string | undefined;
  /**
   * Effort spent on a smaller PNG; the pixels do not change: `fast`, `default`, or `best`, which takes several times
   * the CPU time of `default`; photos get up to a tenth smaller, pictures with repeated patterns several times. Ignored
   * by JPEG and WebP.
   */
  compression?: "fast" | "default" | "best" | undefined;
  /** Shrinks to this size, in pixels of the longest side. To enlarge, set `width`. */
  max_dim?: number | undefined;
  /** Exact width in pixels; alone it keeps the aspect ratio, with `height` it makes an exact box. */
  width?: number | undefined;
  /** Exact height in pixels; alone it keeps the aspect ratio. */
  height?: number | undefined;
  /** A saved preset, by its id or name; fields that are sent override stored ones. */
  preset?: string | undefined;
  /**
   * Keeps the alpha of an input that already has real transparency (alpha below 128 in a 200th of its pixels) as its
   * matte; with `false` the input is put on white and cut out anew.
   */
  keep_alpha?: boolean | undefined;
  /**
   * Public https address of a mask, instead of the part `mask_file`. A mask has the size of the upright picture, and is
   * one of JPEG, PNG, WebP or HEIC.
   */
  mask_url?: string | undefined;
  /**
   * How the mask is used. `replace` (the default): used instead of the network's mask, grey from background (black) to
   * subject (white), or its alpha channel where it has real transparency; matting refines its edge. `trimap`: black is
   * background, white is subject, and matting solves everything between. `hint`: white strokes keep, black ones remove,
   * and grey or transparent leaves it to the network.
   */
  mask_mode?: "replace" | "trimap" | "hint" | undefined;
  /**
   * Box around the subject, as left, top, right and bottom in pixels or percent of the upright picture. The network
   * segments this part alone, and everything outside is background.
   */
  box?: BoxField | undefined;
  /**
   * A pixel of the subject, as `x,y` in pixels or percent of the upright picture; may be repeated. It adds the object
   * at that point to the subject.
   */
  point?: PointsField | undefined;
  /** A pixel of the background, written like `point`. It removes the object at that point and keeps the subject. */
  not_point?: PointsField | undefined;
}

/** Fields of `/remove`. */
export interface RemoveFields extends SharedFields {
  /**
   * A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In place of
   * `mask_url`.
   */
  mask_file?: FileInput | undefined;
  /** Format of the result; both have alpha. */
  format?: "png" | "webp" | undefined;
  /** `closed-form`: fine edges. `none`: faster, rougher. */
  matting?: "closed-form" | "none" | undefined;
  /**
   * `soft` keeps partial transparency (hair, fur); `hard` makes every pixel opaque or transparent (products). `auto`
   * selects it by the subject's outline, which the network classifies: the edge of `engine=product-v1` for an opaque,
   * sharp outline, else `soft`. Glass is often taken for opaque. `x-service-edge` in the reply with a single picture
   * says which.
   */
  edge?: "soft" | "hard" | "auto" | undefined;
  /** `rgba` is the cutout, `alpha` its matte as 8-bit grey. */
  channels?: "rgba" | "alpha" | undefined;
  /** JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG. */
  quality?: number | undefined;
  /** Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0 to 100. */
  despill?: boolean | number | undefined;
  /**
   * Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide. A matte
   * has none.
   */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/remove-url`. */
export interface RemoveUrlFields extends SharedFields {
  /** Format of the result; both have alpha. */
  format?: "png" | "webp" | undefined;
  /** `closed-form`: fine edges. `none`: faster, rougher. */
  matting?: "closed-form" | "none" | undefined;
  /**
   * `soft` keeps partial transparency (hair, fur); `hard` makes every pixel opaque or transparent (products). `auto`
   * selects it by the subject's outline, which the network classifies: the edge of `engine=product-v1` for an opaque,
   * sharp outline, else `soft`. Glass is often taken for opaque. `x-service-edge` in the reply with a single picture
   * says which.
   */
  edge?: "soft" | "hard" | "auto" | undefined;
  /** `rgba` is the cutout, `alpha` its matte as 8-bit grey. */
  channels?: "rgba" | "alpha" | undefined;
  /** JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG. */
  quality?: number | undefined;
  /** Removes green and blue spill of the old background from the edge: a strength from 0 to 100, `true` or `false`. */
  despill?: boolean | number | undefined;
  /**
   * Text that is drawn in the lower right corner. A matte has none. An address in a preset is the picture's, as at the
   * other endpoints.
   */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/remove-batch`. */
export interface RemoveBatchFields extends SharedFields {
  /** Format of the result; both have alpha. */
  format?: "png" | "webp" | undefined;
  /** `closed-form`: fine edges. `none`: faster, rougher. */
  matting?: "closed-form" | "none" | undefined;
  /**
   * `soft` keeps partial transparency (hair, fur); `hard` makes every pixel opaque or transparent (products). `auto`
   * selects it by the subject's outline, which the network classifies: the edge of `engine=product-v1` for an opaque,
   * sharp outline, else `soft`. Glass is often taken for opaque. `x-service-edge` in the reply with a single picture
   * says which.
   */
  edge?: "soft" | "hard" | "auto" | undefined;
  /** `rgba` is the cutout, `alpha` its matte as 8-bit grey. */
  channels?: "rgba" | "alpha" | undefined;
  /** JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG. */
  quality?: number | undefined;
  /** Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0 to 100. */
  despill?: boolean | number | undefined;
  /**
   * Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide. A matte
   * has none.
   */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/remove-batch-url`. */
export interface RemoveBatchUrlFields extends SharedFields {
  /** Format of the result; both have alpha. */
  format?: "png" | "webp" | undefined;
  /** `closed-form`: fine edges. `none`: faster, rougher. */
  matting?: "closed-form" | "none" | undefined;
  /**
   * `soft` keeps partial transparency (hair, fur); `hard` makes every pixel opaque or transparent (products). `auto`
   * selects it by the subject's outline, which the network classifies: the edge of `engine=product-v1` for an opaque,
   * sharp outline, else `soft`. Glass is often taken for opaque. `x-service-edge` in the reply with a single picture
   * says which.
   */
  edge?: "soft" | "hard" | "auto" | undefined;
  /** `rgba` is the cutout, `alpha` its matte as 8-bit grey. */
  channels?: "rgba" | "alpha" | undefined;
  /** JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG. */
  quality?: number | undefined;
  /** Removes green and blue spill of the old background from the edge: a strength from 0 to 100, `true` or `false`. */
  despill?: boolean | number | undefined;
  /**
   * Text that is drawn in the lower right corner. A matte has none. An address in a preset is the picture's, as at the
   * other endpoints.
   */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/mask`. */
export interface MaskFields extends SharedFields {
  /**
   * A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In place of
   * `mask_url`.
   */
  mask_file?: FileInput | undefined;
  /** Format of the result. */
  format?: "png" | "webp" | undefined;
  /** `closed-form`: fine edges. `none`: faster, rougher. */
  matting?: "closed-form" | "none" | undefined;
  /**
   * `soft` keeps partial coverage (hair, fur); `hard` makes every pixel foreground or background (products). `auto`
   * selects it by the subject's outline, which the network classifies: the edge of `engine=product-v1` for an opaque,
   * sharp outline, else `soft`. Glass is often taken for opaque. `x-service-edge` in the reply with a single picture
   * says which.
   */
  edge?: "soft" | "hard" | "auto" | undefined;
  /** Always `alpha`: the matte. */
  channels?: "alpha" | undefined;
  /**
   * `matte` is the coverage of each pixel, as /remove has it; `mask` the clean mask before matting, to be shown,
   * painted over and sent back as `mask_file`.
   */
  stage?: "matte" | "mask" | undefined;
  /** JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG. */
  quality?: number | undefined;
  /** Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0 to 100. */
  despill?: boolean | number | undefined;
  /**
   * Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide. A matte
   * has none.
   */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/replace-bg`. */
export interface ReplaceBgFields extends SharedFields {
  /** The new background, as `file`; overrides `bg_url` and `bg_color`. */
  bg_file?: FileInput | undefined;
  /**
   * A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In place of
   * `mask_url`.
   */
  mask_file?: FileInput | undefined;
  /** Address of a background picture; used when there is no `bg_file`. */
  bg_url?: string | undefined;
  /**
   * Colour of the background; used when there is no picture, and behind one that does not fill the frame or has
   * transparency.
   */
  bg_color?: string | undefined;
  /** How a background picture fills the frame: `cover` crops it, `contain` shows all of it, `stretch` distorts it. */
  fit?: "cover" | "contain" | "stretch" | undefined;
  /** Format of the result. With a background picture the default is `jpg`. */
  format?: "png" | "webp" | "jpg" | undefined;
  /** Always `rgba`: the picture. */
  channels?: "rgba" | undefined;
  /** JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG. */
  quality?: number | undefined;
  /** Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0 to 100. */
  despill?: boolean | number | undefined;
  /**
   * Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide. A matte
   * has none.
   */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/replace-bg-ai`. */
export interface ReplaceBgAiFields extends SharedFields {
  /**
   * A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In place of
   * `mask_url`.
   */
  mask_file?: FileInput | undefined;
  /** What the backdrop shows, in words. Required, here or in the preset. */
  prompt: string;
  /**
   * The model that generates the backdrop: `auto` is the first model that is configured for the account, or the
   * built-in generator without one; an id selects exactly that model.
   */
  model?: "auto" | "famA-image-2.5-sunburst" | "famA-image-2.5-flare" | "famB-image-2.6" | "famB-image-2.6-flash" | "famB-image-2.5-pro" | "famB-image-2.5" | "famB-image-2.5-flash" | "famB-image-2e" | "famA-image-2" | "famC-2-pro" | "famC-2-flex" | "famC-1-kontext-pro" | "famD-famE" | undefined;
  /** Format of the result; it is always opaque. */
  format?: "png" | "webp" | "jpg" | undefined;
  /** Always `rgba`: the picture. */
  channels?: "rgba" | undefined;
  /** JPEG and WebP quality; the default is 92 for JPEG and 80 for WebP. Ignored by PNG. */
  quality?: number | undefined;
  /**
   * How much green and blue spill of the old background is removed from the edge: 0 is off, 100 (or `true`) all of it.
   * The default applies on every plan; sending the field needs the Plus plan.
   */
  despill?: boolean | number | undefined;
  /** Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide. */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/studio-shot`. */
export interface StudioShotFields extends SharedFields {
  /**
   * A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In place of
   * `mask_url`.
   */
  mask_file?: FileInput | undefined;
  /** Colour of the background. */
  bg_color?: string | undefined;
  /** Padding on each side of the subject: pixels of the result, or a percentage of its side. */
  padding?: number | string | undefined;
  /** Adds a soft shadow below the subject. */
  shadow?: boolean | undefined;
  /** Blur strength, 2 to 100; keeps the photo's own background. `true` and 1 mean 50. */
  bg_blur?: boolean | number | undefined;
  /**
   * Keeps the background transparent; `bg_color`, `bg_blur` and `shadow` then have no effect, and a `jpg` becomes a
   * PNG.
   */
  transparent?: boolean | undefined;
  /** Aspect ratio of the result, width to height. Default: the ratio of `width` and `height` if both are sent. */
  aspect?: string | undefined;
  /**
   * Placement of a subject that the photo's border cuts off: `center` has padding on all sides; `auto` puts each cut
   * side against the same border of the canvas, without padding there. Where opposite sides are cut, both touch if the
   * aspect ratio allows it, else the side with the longer cut.
   */
  anchor?: "center" | "auto" | undefined;
  /** Raises brightness and saturation of the subject slightly. */
  enhance?: boolean | undefined;
  /** Strength of `enhance`, when it is on. */
  enhance_strength?: number | undefined;
  /** Format of the result. */
  format?: "png" | "webp" | "jpg" | undefined;
  /** Always `rgba`: the picture. */
  channels?: "rgba" | undefined;
  /** JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG. */
  quality?: number | undefined;
  /** Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0 to 100. */
  despill?: boolean | number | undefined;
  /**
   * Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide. A matte
   * has none.
   */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/smart-crop`. */
export interface SmartCropFields extends SharedFields {
  /**
   * A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In place of
   * `mask_url`.
   */
  mask_file?: FileInput | undefined;
  /**
   * Padding around the subject in pixels of the source, within the picture. With `aspect` it is equal on opposite
   * sides, within the picture on the farther side.
   */
  padding?: number | undefined;
  /**
   * Aspect ratio of the result, width to height. The crop grows to it with the subject in its middle. The area beyond
   * the picture takes the colour of the nearest edge pixel, or is transparent where the input is a cutout. Default: the
   * ratio of `width` and `height` if both are sent.
   */
  aspect?: string | undefined;
  /** Format of the result. */
  format?: "png" | "webp" | undefined;
  /** Always `rgba`: the picture. */
  channels?: "rgba" | undefined;
  /** JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG. */
  quality?: number | undefined;
  /** Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0 to 100. */
  despill?: boolean | number | undefined;
  /**
   * Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide. A matte
   * has none.
   */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/shadow`. */
export interface ShadowFields extends SharedFields {
  /**
   * A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In place of
   * `mask_url`.
   */
  mask_file?: FileInput | undefined;
  /** Direction in which the shadow falls, in degrees: 0 to the right, 90 downwards. */
  angle?: number | undefined;
  /**
   * Blur radius of the shadow in pixels: twice the standard deviation (σ) of its Gaussian, as the blur radius of a CSS
   * `box-shadow`. 20 is a σ of 10 pixels.
   */
  blur?: number | undefined;
  /** Opacity of the shadow. It is mixed with the background in encoded (sRGB) values: 0.4 of black on white is 153. */
  opacity?: number | undefined;
  /** Colour of the shadow. */
  color?: string | undefined;
  /** Distance of the shadow from the subject in pixels. */
  offset?: number | undefined;
  /**
   * Canvas of a subject that the photo's border cuts off: with `center` it grows wherever the shadow leaves it; with
   * `auto` it ends at each border of the photo that cuts the subject off.
   */
  anchor?: "center" | "auto" | undefined;
  /** Colour of the background. */
  bg_color?: string | undefined;
  /** Format of the result; `jpg` needs an opaque `bg_color`. */
  format?: "png" | "webp" | "jpg" | undefined;
  /** Always `rgba`: the picture. */
  channels?: "rgba" | undefined;
  /** JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG. */
  quality?: number | undefined;
  /** Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0 to 100. */
  despill?: boolean | number | undefined;
  /**
   * Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide. A matte
   * has none.
   */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/sticker`. */
export interface StickerFields extends SharedFields {
  /**
   * A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In place of
   * `mask_url`.
   */
  mask_file?: FileInput | undefined;
  /**
   * Width of the outline in pixels of the source. 0 draws no outline; the result then equals `/remove` unless `padding`
   * is sent.
   */
  stroke_width?: number | undefined;
  /** Colour of the outline. */
  stroke_color?: string | undefined;
  /** Transparent padding around the outlined subject in pixels of the source. */
  padding?: number | undefined;
  /**
   * Placement of a subject that the photo's border cuts off: `center` has outline and padding on all sides; `auto` puts
   * each cut side against the same border of the canvas, without outline and padding there. Where opposite sides are
   * cut, both touch if `width` and `height` allow it, else the side with the longer cut.
   */
  anchor?: "center" | "auto" | undefined;
  /** Format of the result. */
  format?: "png" | "webp" | undefined;
  /** Always `rgba`: the picture. */
  channels?: "rgba" | undefined;
  /** JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG. */
  quality?: number | undefined;
  /** Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0 to 100. */
  despill?: boolean | number | undefined;
  /**
   * Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide. A matte
   * has none.
   */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/headshot`. */
export interface HeadshotFields extends SharedFields {
  /**
   * A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In place of
   * `mask_url`.
   */
  mask_file?: FileInput | undefined;
  /** Colour of the background. */
  bg_color?: string | undefined;
  /** Restores the face (sharper, less noise). */
  restore_face?: boolean | undefined;
  /** Aspect ratio of the result, width to height. Default: the ratio of `width` and `height` if both are sent. */
  aspect?: string | undefined;
  /** Format of the result. */
  format?: "png" | "webp" | "jpg" | undefined;
  /** Always `rgba`: the picture. */
  channels?: "rgba" | undefined;
  /** JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG. */
  quality?: number | undefined;
  /** Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0 to 100. */
  despill?: boolean | number | undefined;
  /**
   * Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide. A matte
   * has none.
   */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/face-restore`. */
export interface FaceRestoreFields extends SharedFields {
  /** Factor of enlargement in width and height; faces are restored in the enlarged picture. */
  scale?: 1 | 2 | 4 | undefined;
  /** Weight of the restored face: 0 keeps the original, 1 is full restoration. */
  strength?: number | undefined;
  /** Format of the result; `jpg` needs a picture without transparency. */
  format?: "png" | "webp" | "jpg" | undefined;
  /** Always `rgba`: the picture. */
  channels?: "rgba" | undefined;
  /** JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG. */
  quality?: number | undefined;
  /** Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0 to 100. */
  despill?: boolean | number | undefined;
  /**
   * Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide. A matte
   * has none.
   */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/upscale`. */
export interface UpscaleFields extends SharedFields {
  /** Factor of enlargement in width and height; neither side of the result exceeds 8192 pixels. */
  scale?: 2 | 4 | undefined;
  /** Format of the result; `jpg` needs a picture without transparency. */
  format?: "png" | "webp" | "jpg" | undefined;
  /** Always `rgba`: the picture. */
  channels?: "rgba" | undefined;
  /** JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG. */
  quality?: number | undefined;
  /** Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0 to 100. */
  despill?: boolean | number | undefined;
  /**
   * Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide. A matte
   * has none.
   */
  watermark?: string | undefined;
  /** Opacity of the watermark. */
  watermark_opacity?: number | undefined;
}

/** Fields of `/video/remove`. */
export interface VideoRemoveFields {
  /**
   * Format of the result: `webm` is VP9 with alpha, `mov` ProRes 4444, `png_sequence` a ZIP archive of PNG files. `mp4`
   * has no alpha and needs `bg_color` or `channels=alpha`; the alpha of `gif` is binary.
   */
  format?: "webm" | "mov" | "mp4" | "png_sequence" | "gif" | "webp" | undefined;
  /** `rgba` is the cutout, `alpha` its matte in grey, which takes no `bg_color`. */
  channels?: "rgba" | "alpha" | undefined;
  /** Colour behind the subject; without it the result is transparent. */
  bg_color?: string | undefined;
  /** Strength of temporal smoothing between the masks of neighbouring frames: 0 processes each frame by itself. */
  smoothing?: number | undefined;
  /** A clip that already has real transparency keeps it as its matte. */
  keep_alpha?: boolean | undefined;
  /** Keeps the sound, where the format has an audio track: webm, mov and mp4. */
  audio?: boolean | undefined;
  /**
   * The model that cuts out all frames, by a name of `GET /models`, with or without its version. The header
   * `x-service-model` is an alternative. Without either the account's model cuts out. The built-in network runs once
   * for each frame.
   */
  segmentation_model?: string | undefined;
  /** Public https address that receives a webhook when the job ends, signed as in Standard Webhooks. */
  webhook_url?: string | undefined;
}

export interface EstimateFields {
  /** Path of the endpoint, such as `/remove`. */
  endpoint: string;
  /** `scale` of /upscale. */
  scale?: 2 | 4 | undefined;
  /** `stroke_width` of /sticker. */
  stroke_width?: number | undefined;
  /** `width` of the result: above 4096×4096 pixels it costs more. */
  width?: number | undefined;
  /** `height` of the result. */
  height?: number | undefined;
  /** Number of images. */
  count?: number | undefined;
  /** Duration of the resulting video. */
  seconds?: number | undefined;
}

export interface PresetFields {
  /** Id of the preset to overwrite. */
  id?: string | undefined;
  /** Unique in the account. */
  name: string;
  /** Path of the endpoint that the preset is for. */
  endpoint?: string | undefined;
  /** Fields of that endpoint; at most 16 KB. */
  params?: Record<string, unknown> | undefined;
}

export interface BulkFields {
  /** Path of the endpoint that is called with each picture. */
  endpoint?: string | undefined;
  /** Fields of that endpoint, as in a preset. */
  params?: Record<string, unknown> | undefined;
  /** A preset, by its id or name; `params` take precedence. */
  preset?: string | undefined;
  /**
   * Globs of the keys to process instead of all pictures; one with a slash matches the key below `from`, one without
   * the file name.
   */
  include?: string[] | undefined;
  /** Globs of the keys to exclude. */
  exclude?: string[] | undefined;
  /** Keys of the results below `to`, at most 1,024 bytes; placeholders are {dir}, {stem}, {name} and {ext}. */
  output?: string | undefined;
  /** Maximum number of pictures to process. */
  limit?: number | undefined;
  /**
   * URL of the report, `.jsonl`, in an allowed place; by default an object in `to`. What it has as done is not
   * processed again.
   */
  report?: string | undefined;
}

export interface JobDocumentBulk {
  /** Place of the pictures. */
  from: string;
  /** Place of the results. */
  to: string;
  /** The report, JSON Lines; complete when the job is over. A CSV is beside it. */
  report: string;
  /** Whether `objects` is the number of all objects, and not of those listed so far. */
  listed: boolean;
  /** Objects to process. */
  objects: number;
  /** Objects that are finished, without the failed ones. */
  done: number;
  /** Objects without a result; while the run goes on, of the chunks that are done. */
  failed: number;
  /** Until the job is over. A cancelled run is over once its report is written. */
  state?: "running" | "paused" | "cancelled";
  /** While objects are processed. */
  estimated_end?: string;
  /**
   * Totals of a run that has ended, as `backdrop bulk --json` prints them: `done`, `skipped`, `failed`, `failures` by
   * code, `passed_over`, `bytes_in`, `bytes_out`, `seconds`, `stopped`, `report`.
   */
  summary?: Record<string, unknown>;
}

export interface JobDocumentError {
  /** A code of `ErrorCode`, or `cancelled`. */
  code: string;
  message: string;
}

export interface JobDocument {
  job_id: string;
  /**
   * `queued`, `processing`, then `done` or `error`; it only ever returns to `queued`, when the service restarts or
   * another machine continues it.
   */
  status: "queued" | "processing" | "done" | "error";
  /** Percent, never decreasing while it runs on one machine; 100 when the job is `done`. */
  progress: number;
  created_at: string;
  /** Time of the last change of its status. */
  updated_at: string;
  /** Time at which the job is deleted. */
  expires_at: string;
  /** Of a clip. */
  format?: "webm" | "mov" | "mp4" | "png_sequence" | "gif" | "webp";
  /** A bulk run, of a job from /bulk. */
  bulk?: JobDocumentBulk;
  /** Address of the result, readable without a key; for an hour, when the job is `done`. */
  result_url?: string;
  /** Time at which the result is deleted; when the job is `done`. */
  result_expires_at?: string;
  /** In place of `result_url` after the result was deleted. */
  result_expired?: true;
  /** Exact duration of the result, which was billed; when the job is `done`. */
  output_seconds?: number;
  /** Size of the result. */
  size_bytes?: number;
  /** Warnings for the caller, a sentence each; only where there are any. */
  warnings?: string[];
  /** The reason for the failure, when the job is `error`. */
  error?: JobDocumentError;
}

export interface SavedPreset {
  id: string;
  name: string;
  endpoint: string | null;
  params: Record<string, unknown>;
  created_at: string;
  updated_at: string;
}

export interface RowDocumentBox {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface RowDocumentError {
  code: ErrorCode;
  message: string;
  /**
   * With `payment_required`: the quota of the plan or of the key is used up, or the plan lacks the field or endpoint.
   * With `forbidden`: `out_of_scope` where the scopes of the key exclude the endpoint. With `fetch_failed`: the host of
   * the URL has no public address that can be reached, took too long, failed the TLS handshake, or did not answer with
   * a file. More detail is not disclosed.
   */
  reason?: Reason;
}

export interface RowDocument {
  /** Index of the picture in the request, from 0. */
  index: number;
  /** The address as it was sent. */
  url?: string;
  /** The file name of the form part. */
  filename?: string | null;
  success: boolean;
  /** HTTP status of a request with this picture alone. */
  status: number;
  format?: "png" | "webp";
  width?: number;
  height?: number;
  /** Size of the file, before base64. */
  size_bytes?: number;
  /** The subject in the result: left,top,width,height. */
  foreground?: string;
  /** In an archive: the name of the picture's file. */
  file?: string;
  /** Price in US dollars, as x-service-cost; 0 for a failed row and for one that was billed before. */
  cost?: number;
  /** As x-service-uncertainty. */
  uncertainty?: number;
  /** The subject in the result, in pixels. */
  box?: RowDocumentBox;
  /** As x-service-warnings, a sentence each; only where there are any. */
  warnings?: string[];
  /** The file as base64. Absent from the `results.json` of an archive. */
  data_base64?: string;
  error?: RowDocumentError;
}

export interface BatchDocumentError {
  code: "fetch_failed";
  message: string;
  /**
   * With `payment_required`: the quota of the plan or of the key is used up, or the plan lacks the field or endpoint.
   * With `forbidden`: `out_of_scope` where the scopes of the key exclude the endpoint. With `fetch_failed`: the host of
   * the URL has no public address that can be reached, took too long, failed the TLS handshake, or did not answer with
   * a file. More detail is not disclosed.
   */
  reason?: Reason;
}

export interface BatchDocument {
  /** Number of pictures that were sent. */
  count: number;
  /** Format of all results. */
  format: "png" | "webp";
  /** A row for each picture, in the order in which they were sent. */
  results: RowDocument[];
  succeeded: number;
  failed: number;
  /** The same as the header `x-request-id`. */
  request_id: string;
  /** Only where no picture could be fetched. `reason` is present where all rows have the same. */
  error?: BatchDocumentError;
}

export interface ErrorDocumentError {
  code: ErrorCode;
  /** One sentence, such as: invalid `edge`: "fuzzy" (expected soft, hard or auto). */
  message: string;
  /** The invalid field, where it is one field. */
  param?: string;
  /**
   * With `payment_required`: the quota of the plan or of the key is used up, or the plan lacks the field or endpoint.
   * With `forbidden`: `out_of_scope` where the scopes of the key exclude the endpoint. With `fetch_failed`: the host of
   * the URL has no public address that can be reached, took too long, failed the TLS handshake, or did not answer with
   * a file. More detail is not disclosed.
   */
  reason?: Reason;
}

export interface ErrorDocument {
  error: ErrorDocumentError;
  /** The same as the header `x-request-id`. */
  request_id: string;
}

export interface Estimate {
  endpoint: string;
  estimated_cost_usd: number;
  unit_price_usd: number;
  units: number;
  unit: "image" | "second";
  currency: "USD";
}

export interface Model {
  /** Name and version; requests may name it without the version. */
  name: string;
  /** Family of the network. */
  type: string;
  parameters: number;
  licence: string;
  /** Whether the licence allows it; null where that is disputed or unknown. */
  commercial_use: boolean | null;
  /** What the network runs on; empty until the built-in one was loaded once. */
  device: string;
  /** Whether it is in memory. */
  loaded: boolean;
  /** Whether it is the account's. */
  is_default: boolean;
}

export interface Models {
  models: Model[];
}

export interface AccountRate {
  limit?: number;
  remaining?: number;
  reset_seconds?: number;
}

export interface Account {
  account: string;
  key_id: string;
  plan: "free" | "paid" | "plus";
  /** Name and version of the model that cuts out by default. */
  model: string;
  /** Whether the key is a sandbox key. */
  test: boolean;
  /** Images billed this calendar month (UTC). */
  used: number;
  /** Images per month of the plan. */
  quota: number | null;
  remaining: number | null;
  /** Start of the next month. */
  resets_at: string;
  /** Price of the images billed this month, in US dollars. */
  cost_usd: number;
  /**
   * Secret that signs the account's webhooks, in the notation of Standard Webhooks. Only for keys that may make clips
   * or bulk runs.
   */
  webhook_secret?: string;
  rate: AccountRate;
}

export interface UsageRowKey {
  id: string;
  name: string | null;
}

export interface UsageRow {
  date: string;
  key: UsageRowKey;
  images: number;
  seconds: number;
  cost_usd: number;
}

export interface UsageTotal {
  images: number;
  seconds: number;
  cost_usd: number;
}

export interface Usage {
  usage: UsageRow[];
  total: UsageTotal;
  request_id: string;
}

/** The endpoints that answer one picture. */
export abstract class PictureMethods {
  /** Sends one picture to an operation. */
  protected abstract picture(operation: Operation, picture: Picture, options: object): Promise<ImageResult>;

  /** Cuts the subject out of a picture. `POST /remove` */
  remove(picture: Picture, options: RemoveFields & CallOptions = {}): Promise<ImageResult> {
    return this.picture("remove", picture, options);
  }

  /** Fetches a picture and cuts its subject out. `POST /remove-url` */
  removeUrl(picture: Picture, options: RemoveUrlFields & CallOptions = {}): Promise<ImageResult> {
    return this.picture("removeUrl", picture, options);
  }

  /** Answers the matte of a picture's subject, or its mask before matting, as 8-bit grey. `POST /mask` */
  mask(picture: Picture, options: MaskFields & CallOptions = {}): Promise<ImageResult> {
    return this.picture("mask", picture, options);
  }

  /** Puts the subject on a colour or another picture. `POST /replace-bg` */
  replaceBg(picture: Picture, options: ReplaceBgFields & CallOptions = {}): Promise<ImageResult> {
    return this.picture("replaceBg", picture, options);
  }

  /** Puts the subject on a backdrop that is generated from a prompt. `POST /replace-bg-ai` */
  replaceBgAi(picture: Picture, options: ReplaceBgAiFields & CallOptions): Promise<ImageResult> {
    return this.picture("replaceBgAi", picture, options);
  }

  /** Centres the subject on a plain canvas with a soft shadow. `POST /studio-shot` */
  studioShot(picture: Picture, options: StudioShotFields & CallOptions = {}): Promise<ImageResult> {
    return this.picture("studioShot", picture, options);
  }

  /** Crops a picture to its subject. `POST /smart-crop` */
  smartCrop(picture: Picture, options: SmartCropFields & CallOptions = {}): Promise<ImageResult> {
    return this.picture("smartCrop", picture, options);
  }

  /** Cuts the subject out and adds a drop shadow. `POST /shadow` */
  shadow(picture: Picture, options: ShadowFields & CallOptions = {}): Promise<ImageResult> {
    return this.picture("shadow", picture, options);
  }

  /** Cuts the subject out and draws an outline around it. `POST /sticker` */
  sticker(picture: Picture, options: StickerFields & CallOptions = {}): Promise<ImageResult> {
    return this.picture("sticker", picture, options);
  }

  /** Makes a portrait: head and shoulders on a plain background, the face restored. `POST /headshot` */
  headshot(picture: Picture, options: HeadshotFields & CallOptions = {}): Promise<ImageResult> {
    return this.picture("headshot", picture, options);
  }

  /** Restores the faces in a picture (sharper, less noise). `POST /face-restore` */
  faceRestore(picture: Picture, options: FaceRestoreFields & CallOptions = {}): Promise<ImageResult> {
    return this.picture("faceRestore", picture, options);
  }

  /** Enlarges a picture by a factor of two or four (super-resolution). `POST /upscale` */
  upscale(picture: Picture, options: UpscaleFields & CallOptions = {}): Promise<ImageResult> {
    return this.picture("upscale", picture, options);
  }
}
