import io
import json
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

import coco_people
import duplicates
import pack
import pick
import teach
import voc_scenes
import voc_truth
from data import valid_mask
from drawn import scene, write_set


def near(eval_folder, train_folder):
    evaluation = duplicates.ImageHashes(duplicates.pictures([eval_folder]), mirrored=True)
    training = duplicates.ImageHashes(duplicates.pictures([train_folder]))
    return list(duplicates.near_pairs(evaluation, training, 12, 14, 0.93))


def test_a_planted_near_duplicate_is_found_and_others_are_not(tmp_path):
    write_set(tmp_path / "eval", range(5))
    write_set(tmp_path / "train", range(100, 112))
    assert near(tmp_path / "eval", tmp_path / "train") == []
    for name, mirrored in (("plain", False), ("mirrored", True)):
        rgb = scene(3)[0][:, ::-1] if mirrored else scene(3)[0]
        smaller = cv2.resize(np.ascontiguousarray(rgb), (70, 66), interpolation=cv2.INTER_AREA)
        quality = [cv2.IMWRITE_JPEG_QUALITY, 60]
        cv2.imwrite(str(tmp_path / "train" / "image" / f"{name}.jpg"), (smaller * 0.9)[:, :, ::-1], quality)
    found = near(tmp_path / "eval", tmp_path / "train")
    assert {(a.stem, b.stem) for a, b, *_ in found} == {("3", "plain"), ("3", "mirrored")}


def test_masks_are_not_listed_as_pictures(tmp_path):
    write_set(tmp_path / "a", [1])
    assert [p.parent.name for p in duplicates.pictures([tmp_path])] == ["image"]


def test_several_teachers_are_averaged_at_the_largest_ones_size(monkeypatch):
    class FixedMask:
        def __init__(self, path, threads):
            self.mask = np.full((4, 4), 1.0, np.float32) if path.stem == "yes" else np.zeros((8, 8), np.float32)

        def __call__(self, rgb):
            return self.mask

    monkeypatch.setitem(teach.TEACHERS, ".test", FixedMask)
    for names, expected in ((["yes"], np.ones((4, 4))), (["yes", "no"], np.full((8, 8), 0.5))):
        mask = teach.TeacherEnsemble([Path(f"{name}.test") for name in names], 1)(scene(1)[0])
        np.testing.assert_array_equal(mask, expected)


def test_a_limited_selection_keeps_its_photos_when_a_collection_grows():
    names = [f"{k}.jpg" for k in range(40)]
    chosen = pick.limited(names, 10)
    assert len(set(chosen)) == 10 and pick.limited(names[::-1], 10) == chosen
    more = names + [f"other {k}.jpg" for k in range(40)]
    assert set(pick.limited(more, 10)) & set(names) <= set(chosen)
    assert sorted(pick.limited(names, None)) == sorted(names)


def test_all_classes_are_subject_and_the_void_contour_goes_to_the_nearer_side():
    """A horse with a rider, each in a class of its own, framed by five pixels of void: the contour's middle becomes the edge."""
    classes = np.zeros((60, 80, 3), np.uint8)
    classes[15:45, 15:65] = voc_truth.VOID
    classes[20:40, 20:60] = (128, 0, 192)
    classes[20:30, 30:40] = (128, 128, 192)
    mask = voc_truth.subject_mask(classes)
    assert set(np.unique(mask)) == {0, 255}
    assert mask[20:40, 20:60].all() and not mask[:15].any() and not mask[45:].any() and not mask[:, 65:].any()
    assert abs(int((mask[30] > 0).sum()) - 45) <= 2


def test_photos_with_uncertain_or_empty_masks_are_not_labelled(tmp_path):
    rgb, mask = scene(2)
    for name in ("sure", "unsure", "empty", "no mask"):
        (tmp_path / "photos").mkdir(exist_ok=True)
        cv2.imwrite(str(tmp_path / "photos" / f"{name}.png"), rgb[:, :, ::-1])
    (tmp_path / "masks").mkdir()
    for name, answer in (("sure", mask), ("unsure", (mask * 0.6).astype(np.uint8)), ("empty", mask * 0)):
        cv2.imwrite(str(tmp_path / "masks" / f"{name}.png"), cv2.resize(answer, (512, 512)))
    teach.write_labels(tmp_path / "masks", tmp_path / "photos", tmp_path / "set", 0.6)
    assert [p.name for p in (tmp_path / "set" / "mask").iterdir()] == ["sure.png"]
    kept = cv2.imread(str(tmp_path / "set" / "mask" / "sure.png"), cv2.IMREAD_GRAYSCALE)
    assert kept.shape == mask.shape and ((kept > 127) == (mask > 127)).mean() > 0.99


def test_labels_of_heads_are_kept_where_they_contain_the_hair(tmp_path):
    """A teacher's mask that ends above the hair's lower end is left out, one that misses its blurred border is not."""
    rgb, mask = np.full((200, 200, 3), 90, np.uint8), np.zeros((200, 200), np.uint8)
    mask[40:160, 50:150] = 255
    for name, top in (("whole", 42), ("lost", 60)):
        for folder, plane in (("images", rgb), ("hair", mask), ("masks", np.where(np.arange(200)[:, None] < top, 0, mask))):
            (tmp_path / folder).mkdir(exist_ok=True)
            cv2.imwrite(str(tmp_path / folder / f"{name}.png"), plane)
    teach.write_labels(tmp_path / "masks", tmp_path / "images", tmp_path / "set", 0.15, tmp_path / "hair")
    assert [p.stem for p in teach.pictures(tmp_path / "set")] == ["whole"]


def test_white_background_is_separated_from_pale_products_and_includes_gaps():
    rgb = np.full((120, 120, 3), 255, np.uint8)
    cv2.circle(rgb, (60, 60), 40, (225, 222, 220), -1)
    cv2.circle(rgb, (60, 60), 15, (255, 255, 255), -1)
    mask = teach.mask_on_white(rgb)
    assert mask[60, 30] > 0.99 and mask[60, 60] < 0.01 and mask[5, 5] == 0
    assert teach.mask_on_white(scene(1)[0]) is None


def test_the_guided_filter_sharpens_a_soft_mask_at_the_pictures_edge():
    grey = np.zeros((60, 60), np.float32)
    grey[:, 30:] = 1
    soft = cv2.GaussianBlur(grey, (0, 0), 3)
    fitted = teach.guided_filter(grey, soft, 4, 1e-4)
    assert (fitted[:, 30] - fitted[:, 29] > 2 * (soft[:, 30] - soft[:, 29])).all()


def test_a_packed_set_keeps_its_layout_and_masks_keep_0_and_255(tmp_path):
    write_set(tmp_path / "set", [1])
    names = {name for _, name in pack.files({"photos": [{"name": "set", "folder": "set"}]}, [tmp_path], None)}
    assert names == {"set/image/1.png", "set/mask/1.png"}
    name, data = pack.packed(tmp_path / "set" / "mask" / "1.png", "set/mask/1.png", 48, 80)
    values = np.unique(np.asarray(Image.open(io.BytesIO(data))))
    assert name == "set/mask/1.png" and values[0] == 0 and values[-1] == 255 and len(values) <= 32


def test_what_only_the_teachers_see_beside_a_mask_of_one_class_is_invalid(tmp_path):
    rgb = np.full((96, 120, 3), 90, np.uint8)
    mask, rider, alone = (np.zeros((96, 120), np.uint8) for _ in range(3))
    mask[50:80, 20:90] = 255
    rider[15:45, 40:60] = 255
    alone[:] = mask
    for kind in ("image", "mask"):
        (tmp_path / "set" / kind).mkdir(parents=True)
    (tmp_path / "taught").mkdir()
    for stem, soft in (("vc_1", mask | rider), ("vc_2", alone), ("sod_1", None)):
        cv2.imwrite(str(tmp_path / "set" / "image" / f"{stem}.jpg"), rgb)
        cv2.imwrite(str(tmp_path / "set" / "mask" / f"{stem}.png"), mask)
        if soft is not None:
            cv2.imwrite(str(tmp_path / "taught" / f"{stem}.png"), soft)
    teach.write_reconciled(tmp_path / "taught", tmp_path / "set", tmp_path / "sets")

    def valid(prefix, stem):
        written = cv2.imread(str(tmp_path / "sets" / f"set_{prefix}" / "mask" / f"{stem}.png"), cv2.IMREAD_GRAYSCALE)
        assert ((written == 255) == (mask == 255)).all(), "the subject stays"
        return valid_mask(written)

    assert not valid("vc", "vc_1")[17:43, 42:58].any() and valid("vc", "vc_1")[56:].all()
    assert valid("vc", "vc_2") is None and valid("sod", "sod_1") is None


def class_map(shape, *parts):
    """A class map (BGR) of rectangles: (rows, columns, RGB of the class)."""
    image = np.zeros((*shape, 3), np.uint8)
    for rows, columns, rgb in parts:
        image[slice(*rows), slice(*columns)] = rgb[::-1]
    return image


CAT, SOFA, PERSON = (64, 0, 0), (0, 192, 0), (192, 128, 128)


def scene_mask(folder, *parts):
    cv2.imwrite(str(folder / "map.png"), class_map((120, 160), *parts))
    return voc_scenes.mask_of(folder / "map.png", np.full((120, 160, 3), 90, np.uint8))


def test_a_cats_sofa_is_no_subject_and_a_sofa_alone_is(tmp_path):
    sofa = ((40, 110), (20, 140), SOFA)
    mask = scene_mask(tmp_path, sofa, ((50, 90), (60, 110), CAT))
    assert mask[70, 85] == 1 and mask[100, 30] == 0
    assert scene_mask(tmp_path, sofa)[100, 30] == 1


def test_small_things_apart_are_invalid_and_those_that_touch_are_subject(tmp_path):
    cat = ((30, 100), (20, 90), CAT)
    mask = scene_mask(tmp_path, cat, ((40, 60), (130, 145), PERSON))
    assert mask[65, 55] == 1 and abs(mask[50, 137] - 0.5) < 0.01 and mask[110, 110] == 0
    assert scene_mask(tmp_path, cat, ((40, 60), (88, 103), PERSON))[50, 96] == 1
    assert scene_mask(tmp_path) is None


def test_a_mask_of_one_class_finds_its_map(tmp_path):
    cat = ((30, 100), (20, 90), CAT)
    for name, parts in {"a": [cat, ((40, 60), (88, 120), PERSON)], "b": [((10, 50), (70, 150), CAT)]}.items():
        cv2.imwrite(str(tmp_path / f"{name}.png"), class_map((120, 160), *parts))
    index = voc_scenes.class_index(tmp_path)
    mask = cv2.resize(np.where(class_map((120, 160), cat).any(2), 255, 0).astype(np.uint8), (128, 96))
    assert voc_scenes.matching_map(mask, index).name == "a.png"
    assert voc_scenes.matching_map(255 - mask, index) is None


def square(left, top, side):
    return [left, top, left + side, top, left + side, top + side, left, top + side]


def test_a_persons_overlapping_polygons_are_joined_and_photos_of_several_left_out(tmp_path):
    images = [{"id": k, "file_name": f"{k}.jpg", "height": 60, "width": 80} for k in range(3)]
    one = {"iscrowd": 0, "segmentation": [square(10, 10, 30), square(30, 10, 30)]}
    annotations = [one | {"image_id": k} for k in (0, 1, 1)] + [{"image_id": 2, "iscrowd": 1, "segmentation": {}}]
    (tmp_path / "a.json").write_text(json.dumps({"images": images, "annotations": annotations}))
    masks = coco_people.person_masks(tmp_path / "a.json")
    assert list(masks) == ["0"] and masks["0"].shape == (60, 80)
    assert masks["0"][20, 35] == 1 and masks["0"][20, 20] == 1 and masks["0"][20, 65] == 0


def test_what_a_person_holds_is_subject_and_a_small_person_behind_a_subject_is_left_out():
    rgb, person, soft = np.full((100, 100, 3), 90, np.uint8), np.zeros((100, 100), np.uint8), np.zeros((100, 100), np.uint8)
    person[20:80, 30:60] = 1
    soft[20:80, 30:60] = 255
    assert coco_people.mask_of(person, rgb, soft)[1:] == (True, True)
    soft[40:60, 58:80] = 255  # held
    assert coco_people.mask_of(person, rgb, soft)[1:] == (False, True)
    soft[40:60, 90:] = 255    # and something else
    mask, alone, valid = coco_people.mask_of(person, rgb, soft)
    assert not alone and not valid
    assert mask[50, 45] == mask[50, 62] == mask[50, 78] == 1 and mask[90, 70] == 0
    assert mask[50, 84] == 0 and abs(mask[50, 95] - 0.5) < 0.01
    soft[:, :60] = 0
    assert coco_people.mask_of(person, rgb, soft) is not None
    person[40:] = 0
    assert coco_people.mask_of(person, rgb, soft) is None
