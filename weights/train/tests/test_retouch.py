import json
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from safetensors import safe_open

from drawn import scene
from retouch import damage, pictures
from retouch.align import STORED_SCALE, MARGIN, SIDE, TEMPLATE, warp_square, similarity, stored_crop
from retouch.enlarging import UpscaleTask
from retouch.export import export, load
from retouch.imresize import matrix, reduce
from retouch.loop import Loop
from retouch.measure_restore import KINDS, aligned, measure_kind, psnr, ssim
from retouch.measure_upscale import by_bicubic, luminance, measure
from retouch.nets import Restore, Upscale, bicubic, fold, network
from retouch.reference import infer, synthetic_picture
from retouch.restoring import RestoreTask, sobel
from retouch.train import start_from


@pytest.fixture
def tiles(tmp_path) -> Path:
    folder = tmp_path / "tiles"
    folder.mkdir()
    for seed in range(3):
        cv2.imwrite(str(folder / f"{seed}.png"), scene(seed, side=192)[0])
    return folder


@pytest.fixture
def faces(tmp_path) -> Path:
    folder = tmp_path / "faces"
    folder.mkdir()
    for seed in range(2):
        cv2.imwrite(str(folder / f"{seed}.png"), scene(seed, side=STORED_SCALE * (SIDE + 2 * MARGIN))[0])
    return folder


def enlarging(net, tiles: Path, out: Path, **more) -> Loop:
    return Loop(net, UpscaleTask([tiles], net.factor, side=16, batch=2), out, steps=6, **more)


def trained(net: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """As if trained: no parameter is zero, and every normalisation has its own statistics."""
    torch.manual_seed(seed)
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    for parameter in net.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.02)
    return net.eval().requires_grad_(False)


def test_reduction_by_two_has_the_weights_of_matlabs_imresize():
    row = matrix(16, 8)[4]  # its centre lies between pixels 8 and 9, at distances of (k + 1/2) / 2 in the kernel
    worked_out = [-0.01171875, -0.03515625, 0.11328125, 0.43359375]
    np.testing.assert_allclose(row[5:13], worked_out + worked_out[::-1], atol=1e-12)
    assert np.count_nonzero(row) == 8


def test_reduction_mirrors_at_the_border_and_keeps_flat_pictures():
    first = matrix(16, 8)[0]  # the three weights outside fall back onto pixels 2, 1 and 0
    np.testing.assert_allclose(first[:5], [0.546875, 0.3984375, 0.1015625, -0.03515625, -0.01171875], atol=1e-12)
    flat = np.full((24, 20, 3), 77, np.uint8)
    assert (reduce(flat, 4) == 77).all()
    with pytest.raises(ValueError, match="25x24"):
        reduce(np.zeros((24, 25, 3), np.uint8), 2)


@pytest.mark.parametrize("factor", [2, 4])
def test_enlargement_uses_the_grid_of_reduction(factor):
    """A straight slope stays straight: a shift by part of a pixel would show as an offset."""
    slope = torch.arange(12, dtype=torch.float32).expand(1, 3, 9, 12)
    grown = bicubic(slope, factor)
    where = (torch.arange(12 * factor) + 0.5) / factor - 0.5
    inside = slice(2 * factor, -2 * factor)
    torch.testing.assert_close(grown[0, 1, 5, inside], where[inside], atol=1e-5, rtol=0)
    assert grown.shape == (1, 3, 9 * factor, 12 * factor)


@pytest.mark.parametrize("name", ["upscale-2", "upscale-4", "restore-256"])
def test_an_untrained_network_changes_little_and_its_file_names_its_architecture(name, tmp_path):
    net = network(name)
    x = torch.rand(1, 3, 32, 24)
    expected = torch.zeros_like(x) if name.startswith("restore") else bicubic(x, net.factor)
    with torch.no_grad():
        assert (net.eval()(x) - expected).abs().max() < 1
    export(net, "1", tmp_path / "w.safetensors")
    with safe_open(str(tmp_path / "w.safetensors"), "pt") as file:
        about, names = file.metadata(), set(file.keys())
        assert {file.get_tensor(n).dtype for n in names} == {torch.float16}
    assert about["name"] == name and about["architecture"] == name.split("-")[0] and about["version"] == "1"
    assert about.get("factor", "") == (name[-1] if name.startswith("upscale") else "")
    assert names == {f"{layer}.{part}" for layer in layers(name) for part in ("weight", "bias")}


def layers(name: str) -> set[str]:
    """As the Rust side lists them."""
    if name.startswith("upscale"):
        return {"head", "tail"} | {f"body.{i}.{c}" for i in range(3) for c in "ab"}
    single = {"down1", "down2", "down3", "lat1", "lat2", "up2", "up3", "out"}
    blocks = {"enc1", "dec1", "dec2", "enc2.0", "enc2.1", "enc3.0", "enc3.1", "enc3.2"}
    return single | {f"{block}.{c}" for block in blocks for c in "ab"}


@pytest.mark.parametrize("net", [Upscale(2), Upscale(4), Restore()], ids=lambda n: n.name)
def test_the_exported_network_is_the_trained_one_within_half_precision(net, tmp_path):
    net = trained(net)
    export(net, "1", tmp_path / "w.safetensors")
    x = torch.rand(1, 3, 32, 40)
    before, after = net(x), load(tmp_path / "w.safetensors")(x)
    assert before.std() > 0.05
    torch.testing.assert_close(after, before, atol=5e-3, rtol=5e-3)


def test_folding_changes_nothing_and_leaves_no_normalisation():
    net = trained(Restore())
    x = torch.rand(2, 3, 32, 40)
    before = net(x)
    fold(net)
    torch.testing.assert_close(net(x), before, atol=1e-5, rtol=1e-4)
    assert not any("norm" in name for name in net.state_dict())


def test_a_run_ends_folded_and_can_be_resumed_there(faces, tmp_path, monkeypatch):
    monkeypatch.setattr("retouch.restoring.SHAPES", ((32, 2),))

    def start(name):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        return Loop(Restore(), RestoreTask(faces, []), tmp_path / name, steps=6, bf16_share=0.5)

    whole, cut, resumed = start("whole"), start("cut"), start("cut")
    whole.train()
    cut.train(stop_at=4)
    resumed.resume()
    resumed.train()
    assert whole.folded and resumed.folded and not any("norm" in name for name in whole.net.state_dict())
    for name, tensor in whole.average.state_dict().items():
        assert torch.equal(tensor, resumed.average.state_dict()[name]), name
    loaded = load(resumed.checkpoint)
    torch.testing.assert_close(loaded.out.weight, whole.average.out.weight.detach())


def test_weights_that_half_precision_cannot_hold_are_refused(tmp_path):
    net = Upscale(2)
    net.tail.bias.data[0] = 1e6
    with pytest.raises(SystemExit, match="tail.bias"):
        export(net, "1", tmp_path / "w.safetensors")


def test_a_resumed_run_is_the_same_bit_for_bit(tiles, tmp_path):
    def start(name):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        return enlarging(Upscale(2), tiles, tmp_path / name)

    whole, cut, resumed = start("whole"), start("cut"), start("cut")
    whole.train()
    cut.train(stop_at=3)
    resumed.resume()
    assert resumed.step == 3
    resumed.train()
    assert resumed.step == whole.step == 6
    for kept in ("net", "average"):
        for name, tensor in getattr(whole, kept).state_dict().items():
            assert torch.equal(tensor, getattr(resumed, kept).state_dict()[name]), name


def test_training_on_one_pair_learns_it(tiles, tmp_path):
    torch.manual_seed(1)
    task = UpscaleTask([tiles], 2, side=24, batch=2)
    batch = task.sample(np.random.default_rng(0))
    task.sample = lambda rng: batch
    loop = Loop(Upscale(2), task, tmp_path / "run", steps=60, bf16_share=0.0)
    before = float(task.loss(Upscale(2), batch)[0].detach())
    loop.train()
    assert float(task.loss(loop.net, batch)[0].detach()) < 0.8 * before


def test_a_larger_factor_starts_from_the_smaller_ones_body(tiles, tmp_path):
    small = enlarging(trained(Upscale(2)), tiles, tmp_path / "two")
    small.save()
    net = Upscale(4)
    taken = start_from(net, small.checkpoint)
    assert "body.2.b.weight" in taken and "tail.weight" not in taken
    assert torch.equal(net.body[2].b.weight, small.net.body[2].b.weight)


def test_the_small_patch_is_the_reduced_sharp_one(tiles, monkeypatch):
    monkeypatch.setattr("retouch.enlarging.DEGRADED_SHARE", 0.0)
    task = UpscaleTask([tiles], 4, side=24, batch=1)
    for seed in range(8):  # for every orientation of the pair
        small, sharp = task.pair(np.random.default_rng(seed))
        off = reduce(np.ascontiguousarray(sharp), 4)[3:-3, 3:-3].astype(int) - small[3:-3, 3:-3]
        assert np.abs(off).max() <= 1, seed
    with pytest.raises(SystemExit, match="480 pixels"):
        UpscaleTask([tiles], 4, side=120)


def test_landmarks_are_mapped_onto_the_template():
    turn = np.radians(20)
    spin = 3.1 * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    points = TEMPLATE @ spin.T + (40, -7)
    transform = similarity(points, TEMPLATE)
    np.testing.assert_allclose(points @ transform[:, :2].T + transform[:, 2], TEMPLATE, atol=1e-9)
    mirrored = points * (-1, 1)
    assert np.linalg.det(similarity(mirrored, TEMPLATE)[:, :2]) > 0  # never a reflection


def test_dots_on_the_landmarks_are_found_on_the_template_of_the_crop(tmp_path):
    points = TEMPLATE * 3.3 + (90, 60)
    picture = np.zeros((1024, 1024, 3), np.float32)
    y, x = np.mgrid[:1024, :1024]
    for px, py in points:
        picture += 255 * np.exp(-((x - px) ** 2 + (y - py) ** 2) / (2 * 12.0**2))[..., None]
    cv2.imwrite(str(tmp_path / "face.png"), stored_crop(pictures.to_uint8(picture), points))
    crop = aligned(tmp_path / "face.png")
    assert crop.shape == (SIDE, SIDE, 3)
    for px, py in TEMPLATE.astype(int):
        part = crop[py - 9 : py + 10, px - 9 : px + 10, 0].astype(float)
        v, u = np.mgrid[-9:10, -9:10]
        assert abs((part * u).sum() / part.sum()) < 0.1 and abs((part * v).sum() / part.sum()) < 0.1


def test_shrinking_warps_do_not_alias():
    stripes = np.zeros((400, 400, 3), np.uint8)
    stripes[:, ::2] = 255
    third = warp_square(stripes, np.array([[1 / 3, 0, 0], [0, 1 / 3, 0.0]]), 120)
    assert np.abs(third[20:100, 20:100].astype(int) - 127).max() < 70  # unfiltered it would be 0 and 255


@pytest.mark.parametrize("kernel", [damage.disc_kernel(3.3), damage.motion_kernel(9, 0.7), damage.gaussian_kernel(3, 2, 1.0)])
def test_blur_kernels_keep_brightness_and_place(kernel):
    reach = kernel.shape[0] // 2
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    assert kernel.sum() == pytest.approx(1, abs=1e-5)
    assert abs((kernel * x).sum()) < 1e-4 and abs((kernel * y).sum()) < 1e-4


def test_a_share_of_the_faces_is_undamaged_and_the_others_are_damaged(faces, tiles):
    task = RestoreTask(faces, [tiles])
    pairs = [task.pair(128, np.random.default_rng(n)) for n in range(60)]
    assert all(p.shape == (128, 128, 3) for pair in pairs for p in pair)
    whole = sum((seen == sharp).all() for seen, sharp in pairs)
    assert 4 <= whole <= 24
    again = task.pair(128, np.random.default_rng(3))
    assert (again[0] == pairs[3][0]).all() and (again[1] == pairs[3][1]).all()


def test_changing_an_undamaged_face_costs_the_undamaged_weight(faces, monkeypatch):
    monkeypatch.setattr("retouch.restoring.UNDAMAGED_WEIGHT", 2.0)
    task = RestoreTask(faces, [])

    class Adds(torch.nn.Module):
        def forward(self, x):
            return torch.full_like(x, 0.1)

    sharp = torch.rand(1, 3, 16, 16) * 0.5
    whole, parts = task.loss(Adds(), (sharp, sharp))
    damaged, _ = task.loss(Adds(), (sharp - 0.2, sharp))  # off by 0.1 as well
    assert float(whole) == pytest.approx(2 * float(damaged), rel=1e-4)
    assert parts["whole"] == pytest.approx(20, abs=1e-3)


def test_a_step_of_one_has_a_gradient_of_one():
    x = torch.zeros(1, 3, 8, 8)
    x[..., 4:] = 1
    g = sobel(x)
    assert g.shape == (1, 6, 6, 6) and g[:, ::2].max() == 1 and g[:, 1::2].abs().max() == 0


def test_figures_of_a_network_that_does_nothing(faces):
    nothing = Restore().eval().requires_grad_(False)
    nothing.out.weight.zero_()
    crops = [aligned(p) for p in pictures.paths(faces)]
    lines = {kind: measure_kind(nothing, crops, kind, None) for kind in ("whole", "blur 3 px", "noise 12")}
    assert lines["whole"]["least"] == 99 and lines["whole"]["ssim"] == [1, 1]
    assert lines["noise 12"]["psnr"][0] == pytest.approx(26.6, abs=0.6)  # 20 log10(255 / 12), and clipping helps
    assert all(line["psnr"][0] == line["psnr"][1] and line["worse"] == 0 for line in lines.values())
    assert set(KINDS) >= set(lines)


def test_psnr_and_ssim_are_lower_for_a_changed_picture():
    rgb = scene(1)[0]
    off = np.clip(rgb.astype(int) + 10, 0, 255).astype(np.uint8)
    assert psnr(rgb, rgb) == 99 and psnr(off, rgb) == pytest.approx(28.13, abs=0.3)
    assert ssim(rgb, rgb) == pytest.approx(1) and ssim(cv2.blur(rgb, (5, 5)), rgb) < 0.98
    assert luminance(np.array([[[0, 0, 0], [255, 255, 255]]], np.uint8)).ravel() == pytest.approx([16, 235])


def test_bicubic_is_measured_worse_from_a_jpeg(tiles):
    clean, jpeg = (measure(by_bicubic(2), 2, tiles, quality) for quality in (0, 30))
    assert 25 < jpeg < clean < 60


def test_a_reference_input_can_be_reproduced(tmp_path):
    picture = synthetic_picture(20, 24)
    assert picture[7, 11].tolist() == [
        min(255, (abs((9 * 11 + 35 + 60 * c) % 510 - 255) + abs((44 + 77 + 90 * c) % 510 - 255)) // 2
            + (13 * 77 + 7 * c) % 16) for c in range(3)]
    assert picture.std() > 20
    out = infer(trained(Upscale(2)), picture)
    assert out.shape == (40, 48, 3) and 0 <= out.min() < out.max() <= 1


def test_the_programs_run_from_end_to_end(tiles, tmp_path):
    def program(name, *more):
        here = Path(__file__).parent.parent
        done = subprocess.run([sys.executable, "-m", f"retouch.{name}", *map(str, more)], cwd=here,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    program("train", "upscale-2", "--tiles", tiles, "--out", tmp_path / "run", "--steps", 2)
    program("export", tmp_path / "run" / "checkpoint.pt", "--out", tmp_path / "upscale-2.safetensors")
    for name in ("Set5", "Set14", "BSD100_8"):
        (tmp_path / "eval").mkdir(exist_ok=True)
        (tmp_path / "eval" / name).symlink_to(tiles)
    output = program("measure_upscale", tmp_path / "upscale-2.safetensors", "--eval", tmp_path / "eval")
    lines = [json.loads(line) for line in output.splitlines()]
    assert [(l["small"], l["by"]) for l in lines[:2]] == [("clean", "bicubic"), ("clean", "upscale-2")]
    assert all(l["Set5"] > 25 for l in lines)
