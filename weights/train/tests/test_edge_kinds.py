import cv2
import numpy as np
import pytest
from safetensors.torch import load_file

import edge_kinds


def samples(rng):
    """Features whose first four channels say the kind, in ten classes of each kind."""
    kinds = np.repeat(np.arange(4), 60)
    x = rng.normal(size=(240, 352))
    x[np.arange(240), kinds] += 20
    return x, np.array([f"{kind}:{i % 10}" for i, kind in enumerate(kinds)]), kinds


def test_pictures_have_the_kind_of_their_set_or_of_their_class(tmp_path):
    for name in ("white/a.jpg", "white/b.jpg", "white/c.jpg", "photos/cat__1.jpg", "photos/cup__1.jpg", "photos/boat__1.jpg"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        cv2.imwrite(str(path), np.zeros((4, 4, 3), np.uint8))
    sets = [
        {"name": "white", "folder": "white", "kind": "opaque", "most": 2},
        {"name": "photos", "folder": "photos", "class": "^(.+)__", "hair": ["cat"], "transparent": ["cup"]},
    ]
    rows = [(path.name, name, kind) for path, _, name, kind in edge_kinds.labelled(sets, [tmp_path])]
    assert rows == [("a.jpg", "white", 0), ("c.jpg", "white", 0), ("cat__1.jpg", "photos:cat", 1), ("cup__1.jpg", "photos:cup", 2)]
    with pytest.raises(SystemExit):
        list(edge_kinds.labelled([{"name": "none", "folder": "none"}], [tmp_path]))
    with pytest.raises(SystemExit, match="two kinds"):
        list(edge_kinds.labelled([{**sets[1], "thin": ["cup"]}], [tmp_path]))


def test_a_part_of_the_picture_is_stretched_to_the_networks_square(tmp_path):
    picture = np.zeros((20, 40, 3), np.uint8)
    picture[:10, 20:] = 200
    cv2.imwrite(str(tmp_path / "a.png"), picture)
    (row,) = edge_kinds.labelled([{"name": "a", "folder": ".", "kind": "thin", "most": 9, "part": [0.5, 0.0, 1.0, 0.5]}], [tmp_path])
    part = edge_kinds.network_input(*row[:2])
    assert part.shape == (384, 384, 3) and (part == 200).all() and row[2:] == ("a", 3)
    assert 0 < edge_kinds.network_input(row[0], edge_kinds.WHOLE).mean() < 60


def test_each_kind_has_the_same_weight_and_each_class_that_of_the_root_of_its_pictures():
    classes, kinds = np.array(["a"] * 4 + ["b"] + ["c"] * 9), np.array([0] * 5 + [1] * 9)
    weights = edge_kinds.sample_weights(classes, kinds)
    assert weights[kinds == 0].sum() == pytest.approx(1) and weights[kinds == 1].sum() == pytest.approx(1)
    assert weights[classes == "a"].sum() == pytest.approx(2 * weights[classes == "b"].sum())


def test_a_fit_tells_kinds_of_other_classes_apart_and_is_reproduced(tmp_path, monkeypatch):
    x, classes, kinds = samples(np.random.default_rng(1))
    assert (edge_kinds.held_out(x, classes, kinds).argmax(1) == kinds).mean() > 0.8
    np.savez(tmp_path / "features.npz", x=x, classes=classes, kinds=kinds)
    for name in ("one", "two"):
        out = ["--version", "7", "--out", str(tmp_path / name)]
        monkeypatch.setattr("sys.argv", ["edge_kinds.py", "fit", str(tmp_path / "features.npz"), *out])
        edge_kinds.main()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    tensors = load_file(tmp_path / "one")
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {"kinds.weight": (4, 352, 1, 1), "kinds.bias": (4,)}
