import cv2
import numpy as np
import pytest

import compose
import solids
import strands
from compose import Composer
from data import Photo, PhotoFile, Source, Sources, load_cutouts, load_mix, valid_mask
from drawn import scene, write_set
from pathlib import Path

MIX = Path(__file__).parent.parent / "mix.toml"


@pytest.fixture
def composer(tmp_path):
    write_set(tmp_path / "set", range(4))
    (tmp_path / "bg").mkdir()
    for seed in range(2):
        cv2.imwrite(str(tmp_path / "bg" / f"{seed}.png"), scene(seed)[0])
    mix = load_mix(MIX, [])
    mix["photos"] = [{"name": "set", "folder": "set", "share": 1, "cut": 1}]
    mix["cutouts"] = []
    mix["backgrounds"] = [{"name": "bg", "folder": "bg", "share": 1}]
    return Composer(Sources(mix, [tmp_path], None))


def test_a_composite_blends_its_layers_with_exactly_the_returned_alpha():
    """Green on red without shadow and light: the channels are then alpha and 1 - alpha."""
    rng = np.random.default_rng(7)
    cut = np.zeros((60, 80, 4), np.float32)
    cv2.circle(cut, (40, 30), 25, (0, 255, 0, 255), -1, cv2.LINE_AA)
    placed = compose.place(rng, cut, 96, 0.6)
    alpha = placed[..., 3] / 255
    picture = np.float32([255, 0, 0]) * (1 - alpha[..., None]) + placed[..., :3]
    assert 0.02 < alpha.mean() < 0.6 and ((alpha > 0.1) & (alpha < 0.9)).any()
    np.testing.assert_allclose(picture[..., 1] / 255, alpha, atol=1e-3)
    np.testing.assert_allclose(picture[..., 0] / 255, 1 - alpha, atol=1e-3)


def test_a_close_box_has_all_of_the_subject_and_a_margin():
    mask = np.zeros((200, 300), np.uint8)
    mask[60:140, 100:200] = 255
    for seed in range(40):
        x, y, w, h = compose.close_box(np.random.default_rng(seed), mask)
        for room in (100 - x, 60 - y, x + w - 200, y + h - 140):
            assert 3 <= room <= 20, seed
    mask[:, :8] = 255  # the margin is clipped to the picture
    x, y, w, h = compose.close_box(np.random.default_rng(0), mask)
    assert (x, y, y + h) == (0, 0, 200) and x + w <= 300
    assert compose.close_box(np.random.default_rng(1), np.zeros((200, 300), np.uint8)) == (0, 0, 300, 200)


def test_a_truncating_box_cuts_the_subject_at_one_side_and_keeps_most_of_it():
    mask = np.zeros((200, 300), np.uint8)
    mask[60:140, 100:200] = 255
    sides = set()
    for seed in range(40):
        x, y, w, h = compose.truncating_box(np.random.default_rng(seed), mask)
        kept = (mask[y : y + h, x : x + w] > 0).sum() / (mask > 0).sum()
        assert 0.3 < kept < 0.85, seed
        cut = {"left": x > 106, "top": y > 65, "right": x + w < 194, "bottom": y + h < 135}
        assert sum(cut.values()) == 1, (seed, cut)
        sides |= {name for name, is_cut in cut.items() if is_cut}
    assert sides == {"left", "top", "right", "bottom"}
    assert compose.truncating_box(np.random.default_rng(1), np.zeros((200, 300), np.uint8)) == (0, 0, 300, 200)


def test_shadows_darken_the_background_and_light_wrap_stays_within_the_subject():
    rng = np.random.default_rng(1)
    alpha = np.zeros((128, 128), np.float32)
    alpha[40:80, 40:80] = 1
    ground = np.full((128, 128, 3), 240, np.float32)
    darker = 0
    for _ in range(20):
        shadowed = compose.with_shadow(rng, ground, alpha)
        assert (shadowed <= 240 + 1e-3).all()
        darker += float(shadowed.min()) < 220
    assert darker > 10
    rgb = np.zeros((128, 128, 3), np.float32)
    lit = compose.with_light_wrap(rng, rgb, alpha, ground)
    assert lit[41, 60].max() > lit[60, 60].max() and (lit[alpha == 0] == 0).all()


def test_samples_are_the_same_for_the_same_seed_and_differ_otherwise(composer):
    def draw(n):
        return composer.sample(np.random.default_rng([3, n]), 96)

    for n in range(12):
        a, b = draw(n), draw(n)
        assert a[0].shape == (96, 96, 3) and a[1].shape == a[2].shape == (96, 96)
        assert all((x == y).all() for x, y in zip(a, b)) and a[2].all()
    assert (draw(0)[0] != draw(1)[0]).any()


def test_negatives_have_no_subject_and_white_on_white_has_one(composer):
    composer.photo_until = composer.composite_until = composer.scene_until = 0.0
    assert composer.sample(np.random.default_rng(1), 96)[1].max() == 0
    composer.composite_until = 1.0
    composer.mix["composite"].update(near_tone=1.0, shadow=0.0, wires=0.0)
    areas = [(composer.sample(np.random.default_rng(n), 96)[1] > 127).mean() for n in range(20)]
    assert np.median(areas) > 0.03


def test_a_thumbnail_on_white_keeps_its_edge_and_excludes_the_background():
    """A dark disc on white with a shadow: the mask grows by less than a pixel of the thumbnail and excludes the shadow."""
    alpha = np.zeros((384, 384), np.float32)
    cv2.circle(alpha, (150, 190), 80, 1, -1, cv2.LINE_AA)
    rgb = np.full((384, 384, 3), 255, np.float32)
    rgb[180:200, 240:300] = 200
    rgb = rgb * (1 - alpha[..., None]) + 30 * alpha[..., None]
    assert compose.on_white(rgb, alpha) and not compose.on_white(rgb - 5, alpha)
    for seed in range(10):
        small, kept = compose.thumbnail(np.random.default_rng(seed), rgb, alpha)
        assert small.shape == rgb.shape and kept.shape == alpha.shape
        radius = np.sqrt((kept > 0.5).sum() / np.pi)
        assert 80 < radius < 80 + 384 / compose.THUMBNAIL[0], radius
        assert not kept[:, 250:].any()


def test_a_label_is_invalid_in_wide_uncertain_regions_and_valid_at_edges():
    mask = np.zeros((120, 160), np.uint8)
    mask[20:100, 20:80] = 255
    mask = cv2.GaussianBlur(mask, (0, 0), 1.0)
    assert valid_mask(mask) is None
    mask[40:80, 90:130] = 128
    valid = valid_mask(mask)
    assert not valid[42:78, 92:128].any() and valid[:, :80].all() and valid[:, 140:].all()
    rgb = np.zeros((120, 160, 3), np.uint8)
    assert compose.can_be_cut(Photo(rgb, mask)) and not compose.can_be_cut(Photo(rgb, mask, valid=valid))
    assert not compose.can_be_cut(Photo(rgb, mask * 0))


def test_photos_whose_subject_cannot_be_cut_out_are_drawn_again(composer):
    source = composer.cut_sources.sources[0]
    source.items = [item.read() for item in source.items]
    for photo in source.items[1:]:
        photo.mask[:] = 0
    rng = np.random.default_rng(1)
    assert all((composer.cut_from_file(rng)[..., 3] > 0).any() for _ in range(10))
    source.items[0].mask[:] = 0
    assert composer.cut_from_file(rng).shape[2] == 4


def test_the_valid_mask_is_cropped_with_the_photo(composer):
    composer.photo_until = 1.0
    source = composer.photos.sources[0]
    source.items = [item.read() for item in source.items]
    for photo in source.items:
        photo.valid = np.where(np.arange(96)[None] < 60, 255, 0).astype(np.uint8).repeat(96, 0)
        photo.mask = photo.valid.copy()
    shares = []
    for n in range(20):
        _, mask, valid = composer.sample(np.random.default_rng(n), 96)
        assert ((mask == 255) == (valid == 255)).all() and ((valid == 0) | (valid == 255)).all()
        shares.append((valid == 0).mean())
    assert 0.1 < np.mean(shares) < 0.8 and max(shares) > 0.2


def test_crops_of_scenes_show_most_of_the_picture(composer):
    composer.mix["photo"]["scene_close"] = 0.0
    source = composer.photos.sources[0]
    areas = {}
    for is_scene in (False, True):
        source.options["scene"] = is_scene
        shares = [(composer.photo(np.random.default_rng(n), 96)[1] > 0.5).mean() for n in range(40)]
        areas[is_scene] = np.mean(shares)
    assert areas[True] < 0.8 * areas[False], areas


def test_a_faded_part_is_in_the_mask_like_the_rest(composer):
    composer.photo_until, composer.composite_until = 0.0, 1.0
    composer.mix["thumbnail"]["share"] = 0.0
    changed = 0
    for seed in range(20):
        samples = []
        for share in (1.0, 1e-12):  # the same draws of the generator up to the opacity's
            composer.mix["composite"].update(faded=share, several=0.0, wrap=0.0)
            samples.append(composer.composite(np.random.default_rng(seed), 96, False))
        (faded, alpha), (whole, same) = samples
        assert (alpha == same).all()
        changed += (np.abs(faded - whole).max() > 8)
    assert changed > 10
    opacity = compose.faded_opacity(np.random.default_rng(1), 96)
    assert opacity.max() == 1 and compose.FADED[0] <= opacity.min() <= compose.FADED[1]


def test_pixels_of_the_void_value_are_invalid_however_thin(tmp_path):
    write_set(tmp_path / "set", range(1))
    path = tmp_path / "set" / "mask" / "0.png"
    mask = cv2.threshold(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE), 127, 255, cv2.THRESH_BINARY)[1]
    edge = cv2.morphologyEx(mask, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > 0
    cv2.imwrite(str(path), np.where(edge, 128, mask))
    photo = PhotoFile(tmp_path / "set" / "image" / "0.png", path, void=128).read()
    assert ((photo.valid == 0) == edge).all()


def test_the_mask_of_a_composed_scene_is_its_subject_alone(composer):
    """The area is the requested one but for rotation and the frame; distractors change pixels outside of the mask."""
    composer.photo_until = composer.composite_until = 0.0
    composer.scene_until = 1.0
    areas = [(composer.sample(np.random.default_rng(n), 96)[1] > 127).mean() for n in range(40)]
    low, high = compose.SCENE_AREA
    assert 0.4 * low < min(areas) and max(areas) < 1.3 * high
    assert low < np.mean(areas) < high
    ground = np.full((96, 96, 3), 128, np.float32)
    changed = [(np.abs(composer.with_distractor(np.random.default_rng(n), ground, 0.1) - 128).max(2) > 8).mean() for n in range(40)]
    assert min(changed) > 0 and np.mean(changed) > 0.02


def test_a_cut_out_is_placed_about_a_centre_with_the_area_asked_for():
    cut = np.zeros((60, 80, 4), np.float32)
    cv2.ellipse(cut, (40, 30), (38, 20), 0, 0, 360, (200, 200, 200, 255), -1)
    for seed in range(20):
        scale = compose.scale_of_area(cut, 0.1)
        alpha = compose.place(np.random.default_rng(seed), cut, 200, scale, (0.5, 0.4))[..., 3] / 255
        assert alpha.mean() == pytest.approx(0.1, rel=0.15)
        rows, columns = np.where(alpha > 0.5)
        assert abs(rows.mean() / 200 - 0.4) < 0.02 and abs(columns.mean() / 200 - 0.5) < 0.02
    half_outside = compose.place(np.random.default_rng(1), cut, 200, scale, (0.5, 0.0))[..., 3] / 255
    assert half_outside.mean() == pytest.approx(0.05, rel=0.2)


def test_the_coverage_of_strands_is_proportional_to_their_width():
    """A straight hair of a third of a pixel, 60 pixels long, covers 20 pixels' worth."""
    line = np.stack([np.linspace(10, 70, 9), np.full(9, 30.5)], 1)
    covered = strands.draw_curves((64, 80), [line], [1 / 3]).sum()
    assert covered == pytest.approx(20, rel=0.25)


def test_holes_only_reduce_alpha():
    alpha = np.zeros((120, 120), np.float32)
    alpha[20:100, 20:100] = 1
    for seed in range(10):
        left = strands.holes(np.random.default_rng(seed), alpha)
        assert (left <= alpha).all() and 0 < left.sum() < alpha.sum()


def test_drawn_products_are_premultiplied():
    for seed in range(20):
        drawn = solids.solid(np.random.default_rng(seed), 128, np.float32([250, 250, 250]))
        assert (drawn[..., :3] <= drawn[..., 3:] + 1e-2).all() and drawn[..., 3].max() > 250


def test_tighten_removes_a_shadow_from_alpha(tmp_path):
    bgra = np.zeros((80, 80, 4), np.uint8)
    bgra[10:50, 20:60] = (10, 200, 30, 255)
    bgra[60:70, 20:60] = (0, 0, 0, 90)
    cv2.imwrite(str(tmp_path / "a.png"), bgra)
    assert load_cutouts(tmp_path)[0].shape[:2] == (60, 40)
    assert load_cutouts(tmp_path, tighten=0.45)[0].shape[:2] == (40, 40)


def test_a_change_of_an_unknown_mix_value_is_refused():
    assert load_mix(MIX, ["kinds.negative=0.5"])["kinds"]["negative"] == 0.5
    with pytest.raises(SystemExit):
        load_mix(MIX, ["kinds.negatives=0.5"])
    assert Source("a", [], 1.0).items == []
