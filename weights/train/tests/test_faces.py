"""Tests the `face` network's labels, samples, targets and training loop with synthetic pictures."""
import json

import cv2
import numpy as np
import pytest
import torch

from faces import detect as detecting
from faces import export, measure
from faces.boxes import iou, suppress
from faces.detect import detect, letterboxed
from faces.label import mirror
from faces.loss import assign, centres, decode, face_loss, flatten, overlaps
from faces.model import STRIDES, FaceNet, multiply_adds
from faces.scenes import Canvas, Library, Picture, Scenes, transform_faces, pyramid, read_folder, similarity
from faces.train import Batches, Run, arguments
from weights_file import write

FACE = [30.0, 20, 70, 80, 40, 40, 60, 40, 50, 52, 42, 64, 58, 64, 0.9]


def portrait(seed: int, side: int = 128) -> Picture:
    """A drawn head on noise, with its label."""
    rng = np.random.default_rng(seed)
    rgb = rng.integers(0, 120, (side, side, 3), np.uint8)
    cv2.ellipse(rgb, (50, 50), (20, 30), 0, 0, 360, (230, 190, 160), -1)
    for x, y in ((40, 40), (60, 40), (50, 52), (42, 64), (58, 64)):
        cv2.circle(rgb, (x, y), 3, (20, 20, 20), -1)
    return Picture(pyramid(rgb), np.array([FACE], np.float32))


def empty(seed: int) -> Picture:
    rgb = np.random.default_rng(seed).integers(0, 255, (96, 128, 3), np.uint8)
    return Picture(pyramid(rgb), np.zeros((0, 15), np.float32))


@pytest.fixture
def scenes() -> Scenes:
    return Scenes(Library({"drawn": ([portrait(k) for k in range(3)] + [empty(k) for k in range(3)], 1.0)}))


def test_the_network_has_the_layers_that_rust_reads():
    model = FaceNet().eval()
    shapes = [tuple(o.shape) for o in model(torch.zeros(2, 3, 96, 64))]
    assert shapes == [(2, 15, 12, 8), (2, 15, 6, 4), (2, 15, 3, 2)]
    names = export.folded(model.state_dict()).keys()
    assert len(names) == 2 * (1 + 11 * 3 - 1 + 3 + 3 * 2 + 3)
    assert {"stem.weight", "blocks.0.dw.bias", "blocks.10.project.weight", "lat16.bias", "neck.8.pw.weight",
            "head.32.bias"} <= set(names)
    assert 200e6 < multiply_adds(320) < 250e6


def test_an_exported_file_gives_the_outputs_of_its_checkpoint(tmp_path):
    torch.manual_seed(3)
    model = FaceNet()
    model(torch.randn(4, 3, 64, 64))  # moves the normalisation's statistics
    torch.save({"ema": model.state_dict()}, tmp_path / "a.pt")
    file = tmp_path / "a.safetensors"
    write(file, export.folded(model.state_dict()), {**export.METADATA, "threshold": "0.4"})
    x = torch.randn(1, 3, 64, 96)
    with torch.no_grad():
        for a, b, c in zip(model.eval()(x), export.load(tmp_path / "a.pt")(x), export.load(file)(x)):
            assert torch.allclose(a, b, atol=1e-4)
            assert torch.allclose(a, c, atol=5e-2)
    assert export.threshold(file) == 0.4


def test_mirrored_and_turned_landmarks_keep_their_sides():
    faces = np.array([FACE], np.float32)
    back = mirror(mirror(faces, 100), 100)
    assert np.allclose(back, faces)
    for turn, flip in ((0.0, True), (0.5, False), (-0.5, True)):
        out = transform_faces(faces, similarity(2.0, turn, flip, (50, 50), (200, 100)))[0]
        assert out[4] < out[6] and out[10] < out[12]              # eyes and mouth from left to right
        assert np.allclose((out[:2] + out[2:4]) / 2, (200, 100))  # the box keeps its centre on the face
        assert np.allclose(out[2:4] - out[:2], (80, 120))


def test_a_similarity_moves_pixels_where_it_moves_landmarks():
    picture = portrait(0)
    picture.levels[0][:] = 0
    cv2.circle(picture.levels[0], (40, 40), 2, (255, 255, 255), -1)
    picture.levels = pyramid(picture.levels[0])
    for scale in (1.5, 0.45):
        canvas = Canvas(np.zeros((160, 160, 3), np.uint8))
        matrix = similarity(scale, 0.3, False, (50, 50), (90, 80))
        canvas.put(picture, matrix, np.full((128, 128), 255, np.uint8), np.ones(3))
        y, x = np.nonzero(canvas.rgb[..., 0] > canvas.rgb.max() // 2)
        assert np.abs(np.array([x.mean(), y.mean()]) - canvas.targets()[0, 4:6]).max() < 1.0


def test_occluded_and_truncated_faces_are_not_targets():
    whole = np.full((128, 128), 255, np.uint8)
    targets = {}
    for name, to, patch in (("free", (60, 60), None), ("half", (60, 60), (40, 30, 62, 90)), ("gone", (60, 60), (0, 0, 120, 120)),
                            ("cut", (6, 60), None), ("out", (-18, 60), None)):
        canvas = Canvas(np.zeros((120, 120, 3), np.uint8))
        canvas.put(portrait(1), similarity(1.0, 0.0, False, (50, 50), to), whole, np.ones(3))
        if patch:
            canvas.cover(np.array(patch), np.zeros((8, 8, 3), np.uint8))
        targets[name] = [float(r[14]) for r in canvas.targets()]
    assert targets == {"free": [1.0], "half": [0.0], "gone": [], "cut": [1.0], "out": []}


def test_samples_repeat_and_hold_faces(scenes):
    rgb, faces = scenes.sample(np.random.default_rng(5), 160)
    again, same = scenes.sample(np.random.default_rng(5), 160)
    assert rgb.shape == (160, 160, 3) and (rgb == again).all() and (faces == same).all()
    counts = [len(scenes.sample(np.random.default_rng(k), 128)[1]) for k in range(30)]
    assert max(counts) > 2 and min(counts) == 0


def test_faces_are_assigned_to_the_levels_of_their_size():
    cell_centres = torch.cat([centres(320 // s, 320 // s, s) for s in STRIDES])
    strides = torch.cat([torch.full(((320 // s) ** 2,), float(s)) for s in STRIDES])
    for size, levels in ((10, {8}), (40, {8, 16}), (70, {16}), (100, {16, 32}), (250, {32})):
        box = torch.tensor([160 - size / 2, 160 - size / 2, 160 + size / 2, 160 + size / 2])
        face = torch.cat([box, torch.zeros(10), torch.ones(1)])[None]
        owner, ignored = assign(face, cell_centres, strides)
        assert {int(s) for s in strides[owner >= 0]} == levels
        assert 1 <= (owner >= 0).sum() <= 18 and not ignored.any()
        face[:, 14] = 0
        owner, ignored = assign(face, cell_centres, strides)
        assert (owner < 0).all() and ignored.any()


def test_perfect_outputs_have_no_loss_and_decode_to_the_face():
    face = torch.tensor([FACE])
    face[:, 14] = 1
    outputs = [torch.zeros(1, 15, 128 // s, 128 // s) for s in STRIDES]
    rows, cell_centres, strides = flatten(outputs)
    owner, _ = assign(face, cell_centres, strides)
    positive = owner >= 0
    rows = rows[0].clone()
    rows[:, 0] = torch.where(positive, 12.0, -12.0)
    reach = torch.cat([cell_centres - face[:, :2], face[:, 2:4] - cell_centres], 1).clamp(min=1e-3)
    rows[:, 1:5] = (reach / strides[:, None]).log()
    rows[:, 5:] = ((face[0, 4:14].view(1, 5, 2) - cell_centres[:, None]) / strides[:, None, None]).flatten(1)
    boxes, points = decode(rows, cell_centres, strides)
    assert torch.allclose(boxes[positive], face[:, :4].expand(int(positive.sum()), 4), atol=1e-3)
    assert torch.allclose(points[positive].flatten(1), face[:, 4:14].expand(int(positive.sum()), 10), atol=1e-3)
    start, perfect = 0, []
    for o in outputs:
        n = o.shape[2] * o.shape[3]
        perfect.append(rows[start : start + n].T.reshape(1, 15, *o.shape[2:]))
        start += n
    good, bad = face_loss(perfect, [face])[0], face_loss(outputs, [face])[0]
    assert good < 1e-3 < bad


def test_overlap_of_known_boxes():
    a = torch.tensor([[0.0, 0, 2, 2], [0, 0, 1, 1]])
    b = torch.tensor([[1.0, 0, 3, 2], [2, 0, 3, 1]])
    i, g = overlaps(a, b)
    assert torch.allclose(i, torch.tensor([1 / 3, 0.0])) and torch.allclose(g, torch.tensor([1 / 3, -1 / 3]))
    assert np.allclose(np.diag(iou(a.numpy(), b.numpy())), i.numpy())
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]], np.float32)
    assert suppress(boxes, np.array([0.5, 0.9, 0.1])).tolist() == [1, 2]


def test_pictures_are_letterboxed_without_distortion():
    rgb = np.full((200, 400, 3), 255, np.uint8)
    padded, back = letterboxed(rgb, 320)
    assert padded.shape == (160, 320, 3) and np.allclose(back, 1.25) and (padded == 255).all()
    padded, _ = letterboxed(np.full((300, 400, 3), 255, np.uint8), 320)
    assert padded.shape == (256, 320, 3) and (padded[240:] == 127.5).all() and (padded[:240] == 255).all()


def test_a_run_learns_the_drawn_head_and_resumes_bit_for_bit(scenes, tmp_path):
    def run(name, *more):
        a = arguments(["--out", str(tmp_path / name), "--steps", "8", "--batch", "2", "--sizes", "64,96", "--warmup", "1",
                       *more])
        r = Run(a, Batches(scenes, a.batch, a.sizes, a.seed))
        r.train()
        return r

    whole = run("a")
    run("b", "--stop-at", "3")
    parts = run("b", "--resume")
    assert whole.step == parts.step == 8 and whole.images == parts.images
    for k, v in whole.average.state.items():
        assert torch.equal(v, parts.average.state[k]), k
    found = detect(export.load(tmp_path / "a" / "checkpoint.pt"), portrait(0).levels[0], 96, 0.0)
    assert found.shape[1] == 15 and len(found)


def test_labels_of_uncertain_faces_are_read_as_ignored(tmp_path):
    folder = tmp_path / "drawn"
    folder.mkdir()
    rows = {"a.png": [FACE[14]], "b.png": [0.3], "c.png": [0.6]}
    for name, scores in rows.items():
        cv2.imwrite(str(folder / name), portrait(0).levels[0])
        rows[name] = [[0.2, 0.2, 0.3, 0.4, *([0.3] * 10), s] for s in scores]
    (tmp_path / "drawn.json").write_text(json.dumps(rows))
    a, b, c = read_folder(folder, tmp_path, 128)
    assert np.allclose(a.faces[0, :4], np.array([0.2, 0.2, 0.5, 0.6]) * 128, atol=0.01)
    assert not len(b.faces) and len(c.faces)
    library = Library({"drawn": ([a, b, c], 1.0)})
    assert [len(p) for p in library.face_groups] == [1] and len(library.faceless) == 1


def test_measuring_counts_found_false_and_missed():
    faces = np.array([FACE, FACE], np.float32)
    faces[1, :4] += 200
    found = np.array([FACE, FACE], np.float32)
    found[0, 4:14] += 2
    found[1, :4] += 400
    out = measure.compare(found, faces)
    assert (out["truth"], out["found"], len(out["false"]), len(out["missed"])) == (2, 1, 1, 1)
    assert out["points"] == [pytest.approx(2 * 2**0.5 / 20, rel=1e-4)]
    row = measure.total([out, out])
    assert row["recall"] == 0.5 and row["false_share"] == 0.5


def test_rotating_a_picture_rotates_its_truth(scenes):
    picture = portrait(0)
    rgb, faces = measure.rotated(picture.levels[0], picture.faces, 90)
    assert rgb.shape[:2] == (128, 128)
    x, y = faces[0, 4:6].astype(int)
    assert rgb[y, x].max() < 60 < rgb[y + 6, x + 6].max()  # the eye is dark, the skin beside it is not


@pytest.mark.parametrize("size", (24, 300))
def test_refined_boxes_are_in_the_pictures_coordinates(size, monkeypatch):
    rgb = np.full((800, 900, 3), 30, np.uint8)
    truth = np.array([500, 300, 500 + size, 300 + size], np.float32)
    cv2.rectangle(rgb, (500, 300), (499 + size, 299 + size), (250,) * 3, -1)

    def bright(_, crop, side, least):
        assert crop.shape == (side, side, 3)
        y, x = np.nonzero(crop[..., 0] > 140)
        return np.array([[x.min(), y.min(), x.max() + 1, y.max() + 1, *([0] * 10), 0.7]], np.float32)

    monkeypatch.setattr(detecting, "detect", bright)
    rough = np.concatenate([truth + size * 0.1, np.zeros(10), [0.4]]).astype(np.float32)[None]
    found = detecting.refine(None, rgb, rough)
    assert np.abs(found[0, :4] - truth).max() < 0.03 * size + 1 and found[0, 14] == np.float32(0.7)
    assert not len(detecting.refine(None, rgb, np.zeros((0, 15), np.float32)))
