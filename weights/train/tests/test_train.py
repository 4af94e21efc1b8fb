import json
import os
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from drawn import write_set
from evaluate import evaluate, load, score
from export import differences, folded
from loss import background_hinge, mask_loss
from model import FGNet, Relu6, average
from train import Run, arguments
from weights_file import write

MIX = """
[kinds]
photo = 0.5
composite = 0.3
scene = 0.1
negative = 0.1
[photo]
frame_filling = 0.1
cut = 0.1
close = 0.1
teacher = 0.25
[composite]
solid = 0.3
wires = 0.1
near_tone = 0.3
white = 0.2
plain = 1.0
shadow = 0.6
wrap = 0.3
depth = 0.3
hair = 0.2
holes = 0.2
several = 0.2
faded = 0.1
[thumbnail]
share = 0.5
[[photos]]
name = "set"
folder = "set"
share = 1
cut = 1
"""


@pytest.fixture
def run(tmp_path):
    write_set(tmp_path / "set", range(4))
    (tmp_path / "mix.toml").write_text(MIX)

    def start(name: str, *more: str) -> Run:
        started = Run(arguments([
            "--data", str(tmp_path), "--mix", str(tmp_path / "mix.toml"), "--out", str(tmp_path / name), "--steps", "4",
            "--batch", "12", "--sizes", "64,96", "--workers", "0", "--threads", "1", "--warmup", "1", *more,
        ]))
        started.batches.batch = 0  # two pictures a batch
        started.train()
        return started

    return start


def noisy(model: FGNet) -> FGNet:
    """As if trained: random statistics in every batch normalisation."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
            module.weight.data.uniform_(0.5, 1.5)
    return model.eval()


def test_a_resumed_run_is_the_same_bit_for_bit(run):
    whole = run("whole")
    run("cut", "--stop-at", "2")
    resumed = run("cut", "--resume")
    assert resumed.step == whole.step == 4 and resumed.images == whole.images
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name
        assert torch.equal(whole.average.state[name], resumed.average.state[name]), name


def test_another_seed_is_another_run(run):
    a, b = run("a"), run("b", "--seed", "2")
    assert not torch.equal(a.model.state_dict()["head.weight"], b.model.state_dict()["head.weight"])


def test_the_exported_network_is_the_trained_one_within_half_precision(tmp_path):
    model = noisy(FGNet())
    path = tmp_path / "w.safetensors"
    write(path, folded(model.state_dict()), {"name": "fgnet"})
    x = torch.rand(1, 3, 96, 96) * 2 - 1
    with torch.no_grad():
        before, after = torch.sigmoid(model(x)), torch.sigmoid(load(path)(x))
    assert before.std() > 1e-3
    assert (before - after).abs().max() < 5e-3


def test_a_temperature_divides_the_logits_and_nothing_else(tmp_path):
    model = noisy(FGNet())
    for temperature in (1.0, 0.5):
        save_file(folded(model.state_dict(), temperature), str(tmp_path / f"{temperature}.safetensors"))
    x = torch.rand(1, 3, 64, 64) * 2 - 1
    with torch.no_grad():
        as_is, halved = (load(tmp_path / f"{t}.safetensors")(x) for t in (1.0, 0.5))
    torch.testing.assert_close(halved, 2 * as_is)


def test_frozen_layers_stay_and_the_others_learn(run):
    """Weights and statistics of the first step and of the fourth; `blocks.3` is the fifth layer."""
    first, last = (run(name, "--freeze", "4", "--stop-at", name) for name in ("1", "4"))
    now = last.model.state_dict()
    changed = {name for name, tensor in first.model.state_dict().items() if not torch.equal(tensor, now[name])}
    frozen = ("enc.stem.", "enc.blocks.0.", "enc.blocks.1.", "enc.blocks.2.")
    assert not [name for name in changed if name.startswith(frozen)]
    assert {"enc.blocks.3.dw.conv.weight", "enc.blocks.3.dw.bn.running_mean", "head.weight"} <= changed


def test_a_normalisation_with_fixed_statistics_is_merged_into_the_convolution_and_its_parameters_train(run):
    """Same output and gradients as separate layers; in a run the statistics are constant and the scales change."""
    model = noisy(FGNet())
    unit = model.d4[0].dw
    x = torch.rand(2, 64, 8, 8)
    apart = torch.relu(unit.bn(unit.conv(x)))
    torch.testing.assert_close(unit(x), apart)
    parameters = [unit.conv.weight, unit.bn.weight, unit.bn.bias]
    ours, theirs = (torch.autograd.grad(y.square().sum(), parameters) for y in (unit(x), apart))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)

    first, last = (run(name, "--still", "--stop-at", name) for name in ("1", "4"))
    now = last.model.state_dict()
    changed = {name for name, tensor in first.model.state_dict().items() if not torch.equal(tensor, now[name])}
    assert not [name for name in changed if "running_" in name or "num_batches" in name]
    assert {"enc.stem.bn.weight", "d4.0.dw.conv.weight", "d4.0.dw.bn.weight", "head.weight"} <= changed


def test_relu6_and_its_gradient_are_pytorchs():
    x = torch.linspace(-2, 8, 41, requires_grad=True)
    ours, theirs = Relu6.apply(x), torch.nn.functional.relu6(x)
    assert torch.equal(ours, theirs)
    weights = torch.arange(41.0)
    assert torch.equal(*(torch.autograd.grad((y * weights).sum(), x)[0] for y in (ours, theirs)))


def test_the_encoder_comes_from_imagenet_and_the_decoder_from_the_file_as_far_as_it_fits(run, tmp_path):
    encoder, theirs = noisy(FGNet()).enc.state_dict(), {}
    for name, tensor in encoder.items():  # with the published names
        name = name.replace("stem.conv", "_conv_stem").replace("stem.bn", "_bn0").replace("blocks", "_blocks")
        for ours, conv, norm in (("expand", "_expand_conv", "_bn0"), ("dw", "_depthwise_conv", "_bn1"),
                                 ("project", "_project_conv", "_bn2")):
            name = name.replace(f"{ours}.conv", conv).replace(f"{ours}.bn", norm)
        theirs[name] = tensor
    torch.save(theirs | {"_fc.weight": torch.zeros(3)}, tmp_path / "imagenet.pth")
    older = FGNet().state_dict()
    older |= {"lat4.conv.weight": torch.zeros(64, 96, 1, 1), "enc.stem.conv.weight": torch.zeros(32, 3, 3, 3)}
    torch.save(older, tmp_path / "older.pt")
    begun = run("begun", "--imagenet", str(tmp_path / "imagenet.pth"), "--init", str(tmp_path / "older.pt"),
                "--freeze", "99", "--rate", "0", "--stop-at", "1").model.state_dict()
    for name, tensor in encoder.items():
        if "num_batches" not in name:
            assert torch.equal(begun[f"enc.{name}"], tensor), name
    assert torch.equal(begun["d4.0.pw.conv.weight"], older["d4.0.pw.conv.weight"])
    assert begun["lat4.conv.weight"].shape == (64, 120, 1, 1)


def test_differences_of_another_layout_are_reported(tmp_path):
    tensors = folded(noisy(FGNet()).state_dict())
    other = {k: v for k, v in tensors.items() if k != "head.bias"} | {"in5.conv.bias": tensors["in5.conv.bias"].float()}
    save_file(other, str(tmp_path / "w.safetensors"))
    reported = differences(tensors, tmp_path / "w.safetensors")
    assert len(reported) == 2 and "head.bias" in reported[0] and "in5.conv.bias" in reported[1]


def test_the_average_of_two_is_between_them():
    a, b = FGNet().state_dict(), FGNet().state_dict()
    mixed = average([a, b], [3, 1])
    np.testing.assert_allclose(mixed["head.weight"], 0.75 * a["head.weight"] + 0.25 * b["head.weight"], atol=1e-6)


def test_weights_without_attention_load_and_average_as_those_whose_attention_adds_nothing():
    a = noisy(FGNet())
    with torch.no_grad():
        a.attention.project.weight.normal_()
    older = {k: v for k, v in noisy(FGNet()).state_dict().items() if not k.startswith("attention.")}
    model = FGNet()
    model.load(older)
    x = torch.randn(1, 128, 3, 3)
    assert torch.equal(model.attention(x), x)
    mixed = average([older, a.state_dict()], [3, 1])
    model.load_state_dict(mixed)
    np.testing.assert_allclose(model.attention(x).detach(), (0.75 * x + 0.25 * a.attention(x)).detach(), atol=1e-5)


def test_the_loss_is_lower_for_the_truth_and_empty_pictures_have_no_iou_term():
    target = torch.zeros(2, 1, 64, 64)
    target[0, 0, 16:48, 16:48] = 1
    right, wrong = (target * 2 - 1) * 8, (1 - target * 2) * 8
    sides = [torch.zeros(2, 1, s, s) for s in (2, 4, 8, 16)]
    valid = torch.ones_like(target)
    assert mask_loss(right, sides, target, valid)[0] < mask_loss(wrong, sides, target, valid)[0]
    assert mask_loss(right, sides, target, valid)[1]["iou"] < 0.01


def test_invalid_regions_have_no_gradient():
    torch.manual_seed(1)
    target, logits = torch.zeros(1, 1, 64, 64), torch.randn(1, 1, 64, 64, requires_grad=True)
    target[..., 16:48, 16:48] = 1
    valid = torch.ones_like(target)
    valid[..., 32:, 32:] = 0
    sides = [torch.randn(1, 1, s, s, requires_grad=True) for s in (2, 4, 8, 16)]
    loss, _ = mask_loss(logits, sides, target, valid)
    for plane, gradient in zip((logits, *sides), torch.autograd.grad(loss, (logits, *sides))):
        half = plane.shape[-1] // 2
        assert not gradient[..., half:, half:].any(), plane.shape
        assert gradient[..., :half, :].all(), plane.shape
    all_invalid, _ = mask_loss(logits, sides, target, torch.zeros_like(target))
    assert all_invalid.isfinite()


def test_the_hinge_counts_faint_background_far_from_the_subject_alone():
    target, valid = torch.zeros(1, 1, 64, 64), torch.ones(1, 1, 64, 64)
    target[..., 24:40, 24:40] = 1
    valid[..., 56:, :] = 0
    logits = torch.full((1, 1, 64, 64), -4.0, requires_grad=True)
    assert background_hinge(logits, target, valid).item() == 0
    faint = torch.full((1, 1, 64, 64), -2.0, requires_grad=True)
    counted = torch.autograd.grad(background_hinge(faint, target, valid).sum(), faint)[0][0, 0] > 0
    assert counted[:8].all() and counted[:56, :8].all()
    assert not counted[16:48, 16:48].any() and not counted[56:].any()


def test_a_terminated_run_leaves_a_checkpoint_to_resume_from(run, monkeypatch):
    train_batch = Run.train_batch

    def terminated(self, *planes):
        os.kill(os.getpid(), signal.SIGTERM)
        return train_batch(self, *planes)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "train_batch", terminated)
        assert run("cut").step == 1
    assert run("cut", "--resume").step == 4


def test_scores_are_perfect_for_the_truth_and_log_is_kept(run, tmp_path):
    truth = np.zeros((90, 120), np.float32)
    truth[20:60, 30:80] = 1
    assert score(truth, truth) == (0.0, 1.0, 1.0)
    shifted = score(np.roll(truth, 3, 1), truth)
    assert shifted[0] > 0 and shifted[2] < shifted[1] < 1
    write_set(tmp_path / "eval" / "ecssd", range(2))
    measured = evaluate(FGNet().eval(), tmp_path / "eval", side=64)
    assert measured["ecssd"]["n"] == 2
    run("logged", "--eval", str(tmp_path / "eval"))
    lines = [json.loads(line) for line in (tmp_path / "logged" / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 4 and "ecssd" in lines[-1]["eval"]
