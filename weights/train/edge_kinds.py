#!/usr/bin/env python3
"""Fits the classifier of the subject's outline, `edge-352.safetensors`, to features of the segmentation network.

    edge_kinds.py features --net ../fgnet-384.safetensors --root $D --root $W --out $W/edge_features.npz
    edge_kinds.py fit $W/edge_features.npz --version 1 --out ../edge-352.safetensors

`features` runs the network on the pictures that `edge_kinds.toml` lists (25 minutes of two cores) and keeps, for each, the mean of
each channel of the encoder's last tap: 352 numbers. `fit` first reports what a fit to four fifths of the classes and sets gives
for the held-out fifth, then fits to all of them: multinomial logistic regression, each kind with the same
weight and each class in it by the root of its pictures, the squares of the weights (in units of the features' deviations) times
0.01 added to the loss.
"""
import argparse
import hashlib
import re
import tomllib
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn.functional as F

from data import find_folder, pictures, read_rgb
from evaluate import load
from weights_file import write

KINDS = ("opaque", "hair", "transparent", "thin")  # the order of `EdgeKinds` in src/image/edge_kinds.rs
METADATA = {"name": "edge-352", "architecture": "edge", "licence": "MIT OR Apache-2.0"}
SIDE = 384
WHOLE = (0.0, 0.0, 1.0, 1.0)
BATCH = 8
PENALTY = 1e-2
FOLDS = 5
MOST_LOST = 0.2  # `MOST_LOST` in src/matting/options.rs


def labelled(sets: list[dict], roots: list[Path]):
    """(picture, part of it, class, kind) of every picture that has a kind."""
    for entry in sets:
        folder = find_folder(entry["folder"], roots)
        if folder is None:
            raise SystemExit(f"{entry['folder']}: not under any --root")
        paths, part = pictures(folder), tuple(entry.get("part", WHOLE))
        if "kind" in entry:
            chosen = np.linspace(0, len(paths) - 1, min(entry["most"], len(paths))).round().astype(int)
            yield from ((paths[i], part, entry["name"], KINDS.index(entry["kind"])) for i in chosen)
            continue
        kinds = {name: index for index, kind in enumerate(KINDS) for name in entry.get(kind, [])}
        if len(kinds) < sum(len(entry.get(kind, [])) for kind in KINDS):
            raise SystemExit(f"{entry['name']}: a class of two kinds")
        for path in paths:
            found = re.match(entry["class"], path.stem)
            if found and found[1] in kinds:
                yield path, part, f"{entry['name']}:{found[1]}", kinds[found[1]]


def network_input(path: Path, part: tuple[float, ...]) -> np.ndarray:
    """The part (left, top, right, bottom as shares of the picture), stretched to the network's square."""
    rgb = read_rgb(path)
    left, right = (round(share * rgb.shape[1]) for share in part[::2])
    top, bottom = (round(share * rgb.shape[0]) for share in part[1::2])
    return cv2.resize(rgb[top:bottom, left:right], (SIDE, SIDE), interpolation=cv2.INTER_AREA)


@torch.no_grad()
def features(net: Path, parts: list[tuple[Path, tuple[float, ...]]]) -> np.ndarray:
    """One row of means for each picture, or part of one."""
    model, taps, rows = load(net).to(memory_format=torch.channels_last), [], []
    model.enc.register_forward_hook(lambda _module, _inputs, output: taps.append(output[-1]))
    for start in range(0, len(parts), BATCH):
        rgb = [network_input(*part) for part in parts[start : start + BATCH]]
        x = torch.from_numpy(np.stack(rgb)).permute(0, 3, 1, 2).to(memory_format=torch.channels_last)
        model(x.float().div(127.5).sub(1))
        rows.append(taps.pop().mean((2, 3)).numpy())
    return np.concatenate(rows)


def sample_weights(classes: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    weights = np.zeros(len(kinds))
    for kind in np.unique(kinds):
        of_kind = kinds == kind
        for name, count in zip(*np.unique(classes[of_kind], return_counts=True)):
            weights[of_kind & (classes == name)] = count**-0.5
        weights[of_kind] /= weights[of_kind].sum()
    return weights


def fit(x: np.ndarray, classes: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights [kinds, features] and bias [kinds]."""
    mean, deviation = x.mean(0), x.std(0) + 1e-6
    z, target = torch.from_numpy((x - mean) / deviation).double(), torch.from_numpy(kinds).long()
    share = torch.from_numpy(sample_weights(classes, kinds) / len(KINDS))
    weight = torch.zeros(x.shape[1], len(KINDS), dtype=torch.double, requires_grad=True)
    bias = torch.zeros(len(KINDS), dtype=torch.double, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=300, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = (F.cross_entropy(z @ weight + bias, target, reduction="none") * share).sum() + PENALTY * (weight**2).sum()
        value.backward()
        return value

    optimizer.step(loss)
    scaled = weight.detach().numpy() / deviation[:, None]
    return scaled.T, bias.detach().numpy() - mean @ scaled


def probabilities(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return torch.softmax(torch.from_numpy(x @ weight.T + bias), 1).numpy()


def held_out(x: np.ndarray, classes: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """The probabilities of each picture by a fit to other classes than its own. Classes of the same name in two sets, and sets that
    share their photos (`ccp` and `ccp_heads`), are held out together."""
    groups = np.array([name.rsplit(":")[-1].split("_heads")[0].lower() for name in classes])
    names = np.random.RandomState(0).permutation(np.unique(groups))
    fold = dict(zip(names, np.arange(len(names)) % FOLDS))
    folds, result = np.array([fold[group] for group in groups]), np.zeros((len(kinds), len(KINDS)))
    for k in range(FOLDS):
        seen = folds != k
        result[~seen] = probabilities(x[~seen], *fit(x[seen], classes[seen], kinds[seen]))
    return result


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", required=True)
    of_features = commands.add_parser("features")
    of_features.add_argument("--net", type=Path, required=True)
    of_features.add_argument("--root", type=Path, action="append", required=True)
    of_features.add_argument("--sets", type=Path, default=Path(__file__).with_name("edge_kinds.toml"))
    of_features.add_argument("--out", type=Path, required=True)
    of_fit = commands.add_parser("fit")
    of_fit.add_argument("features", type=Path)
    of_fit.add_argument("--version", required=True)
    of_fit.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    if a.command == "features":
        rows = list(labelled(tomllib.loads(a.sets.read_text())["sets"], a.root))
        paths, parts, classes, kinds = zip(*rows)
        np.savez(a.out, x=features(a.net, list(zip(paths, parts))), classes=np.array(classes), kinds=np.array(kinds))
        return
    with np.load(a.features) as file:
        x, classes, kinds = file["x"], file["classes"], file["kinds"]
    opaque, hair, transparent, thin = held_out(x, classes, kinds).T
    is_opaque = (hair + transparent <= MOST_LOST) & (opaque > thin)  # `by_kind` in src/matting/options.rs
    for index, kind in enumerate(KINDS):
        own = kinds == index
        print(f"{kind}: {own.sum()} pictures of {len(np.unique(classes[own]))} classes, "
              f"{100 * is_opaque[own].mean():.1f} % taken for opaque where their class was held out")
    weight, bias = (torch.from_numpy(values).half() for values in fit(x, classes, kinds))
    write(a.out, {"kinds.weight": weight[:, :, None, None].contiguous(), "kinds.bias": bias}, {**METADATA, "version": a.version})
    print(a.out, a.out.stat().st_size, hashlib.sha256(a.out.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
