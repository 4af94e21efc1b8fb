import cv2
import numpy as np
import pytest
import torch

from drawn import scene, write_set
from guided import GuidedNet, GuidedRun, better, click, crop_of, merged, next_click, objects_of, options, without_unclicked, worse
from model import FGNet
from test_train import MIX


def test_the_planes_change_nothing_before_training():
    torch.manual_seed(1)
    plain = FGNet().eval()
    guided = GuidedNet().eval()
    guided.load(plain.state_dict())
    picture, planes = torch.randn(1, 3, 96, 96), torch.rand(1, 3, 96, 96)
    assert torch.equal(guided(picture, planes), plain(picture))


def test_a_click_is_the_innermost_pixel_of_the_largest_region():
    wrong = np.zeros((40, 60), bool)
    wrong[5:20, 10:31] = True
    wrong[30:36, 40:50] = True
    x, y = click(wrong)
    assert y == 12 and 17 <= x <= 23
    rng = np.random.default_rng(2)
    for _ in range(20):
        x, y = click(wrong, rng)
        assert 13 <= x <= 27 and 8 <= y <= 16
    assert click(np.zeros((9, 9), bool)) is None


def test_clicks_say_what_is_missing_and_what_is_superfluous():
    truth = np.zeros((40, 60), np.float32)
    truth[5:20, 10:30] = 1
    everywhere = np.ones_like(truth)
    assert next_click(np.zeros_like(truth), truth, everywhere)[1] is True
    (x, y), on_subject = next_click(np.maximum(truth, truth[::-1]), truth, everywhere)
    assert not on_subject and truth[y, x] == 0
    assert next_click(truth, truth, everywhere) is None
    assert next_click(np.zeros_like(truth), truth, 1 - truth) is None, "nothing valid is wrong"


def test_worse_masks_are_masks_and_the_generator_decides():
    mask = scene(3)[1].astype(np.float32) / 255
    for seed in range(30):
        changed, again = (worse(np.random.default_rng(seed), mask) for _ in range(2))
        assert changed.shape == mask.shape and 0 <= changed.min() and changed.max() <= 1
        assert np.array_equal(changed, again) and not np.array_equal(changed, mask)


def test_the_crop_contains_mask_and_clicks():
    mask = np.zeros((200, 300), np.float32)
    mask[20:40, 30:60] = 1
    x, y, w, h = crop_of(mask, [((90, 70), False)])
    assert x <= 30 and y <= 20 and x + w > 90 and y + h > 70
    assert (x, y, w, h) != crop_of(mask, []) == crop_of(mask, [((45, 30), True)])
    assert crop_of(mask, [((90, 70), True)]) == (0, 0, 300, 200), "what it adds has an unknown size"
    assert crop_of(mask, [((90, 70), False), ((45, 30), True)]) == crop_of(mask, []), "it was removed before"
    assert crop_of(np.zeros_like(mask), []) == (0, 0, 300, 200)
    assert crop_of(np.ones_like(mask), []) == (0, 0, 300, 200)


def test_only_the_region_of_a_click_and_edges_change():
    before, after = np.zeros((100, 100), np.float32), np.zeros((100, 100), np.float32)
    before[10:40, 10:40] = after[11:41, 10:40] = 1
    after[60:90, 10:40] = after[60:90, 60:90] = 1
    found = merged(before, after, (20, 70))
    assert found[65:85, 15:35].min() == 1 and found[60:90, 60:90].max() == 0
    assert np.array_equal(found[:50], after[:50])


def test_large_wrong_regions_without_a_click_have_no_loss():
    so_far, truth = np.zeros((100, 100), np.float32), np.zeros((100, 100), np.float32)
    truth[10:40, 10:40] = truth[60:90, 10:40] = truth[0:5, 90:95] = 1
    discs = np.zeros((100, 100), bool)
    discs[20:25, 20:25] = True
    valid = without_unclicked(so_far, truth, np.full((100, 100), 255, np.uint8), discs)
    assert valid[10:40, 10:40].min() == 255 and valid[60:90, 10:40].max() == 0 and valid[0:5, 90:95].min() == 255


@pytest.fixture
def run(tmp_path):
    write_set(tmp_path / "set", range(4))
    write_set(tmp_path / "objects", range(6))
    (tmp_path / "maps").mkdir()
    for seed in range(6):
        colours = np.zeros((96, 96, 3), np.uint8)
        colours[scene(seed)[1] > 127] = (0, 128, 192)
        colours[:20, :30] = (128, 0, 64)
        cv2.imwrite(str(tmp_path / "maps" / f"{seed}.png"), colours)
    (tmp_path / "mix.toml").write_text(MIX)
    return lambda *more: GuidedRun(options([
        "--data", str(tmp_path), "--mix", str(tmp_path / "mix.toml"), "--out", str(tmp_path / "run"), "--steps", "4", "--batch", "12",
        "--sizes", "96", "--workers", "0", "--threads", "1", "--warmup", "1", "--objects", str(tmp_path / "objects"),
        "--maps", str(tmp_path / "maps"), "--masks", str(tmp_path / "none"), "--base", "none", *more,
    ]))


def test_objects_of_a_map_have_labels_and_void_contours(tmp_path):
    rgb, _ = scene(1)
    colours = np.zeros((96, 96, 3), np.uint8)
    colours[10:40, 10:40] = (0, 128, 192)
    colours[50:80, 50:80] = (0, 128, 192)
    cv2.imwrite(str(tmp_path / "map.png"), colours)
    labels, void = objects_of(tmp_path / "map.png", rgb)
    assert sorted(np.unique(labels)) == [0, 1, 2]
    assert void[10, 20] and not void[25, 25]


def test_clicks_of_samples_lie_where_they_say(run):
    composer = run().batches.composer
    clicks = [0, 0]
    for n in range(60):
        rgb, mask, valid, planes = composer.sample(np.random.default_rng(n), 96)
        assert rgb.shape == (96, 96, 3) and planes.shape == (3, 96, 96) and mask.shape == valid.shape == (96, 96)
        for k, plane in enumerate(planes[1:]):
            spots, _, _, centres = cv2.connectedComponentsWithStats((plane > 0).astype(np.uint8))
            for x, y in np.round(centres[1:]).astype(int):
                if valid[max(0, y - 3) : y + 4, max(0, x - 3) : x + 4].min() == 255 and spots < 3:
                    clicks[k] += 1
                    near = mask[max(0, y - 2) : y + 3, max(0, x - 2) : x + 3]
                    assert near.max() > 127 if k == 0 else near.min() < 128
    assert min(clicks) > 5


def test_it_trains_and_uses_its_own_masks(run):
    started = run("--rounds", "1")
    before = started.model.join4.weight.clone()
    started.train()
    assert started.step == 4 and not torch.equal(before, started.model.join4.weight)
    net = GuidedNet()
    net.load_state_dict(started.average.state)
    mask = better(net.eval().fold(), scene(1)[0], scene(1)[1].astype(np.float32) / 255, [((48, 48), True)], side=96)
    assert mask.shape == (96, 96) and 0 <= mask.min() and mask.max() <= 1
