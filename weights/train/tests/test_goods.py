import numpy as np
import pytest

pytest.importorskip("mitsuba")
import goods  # noqa: E402


def arranged(place, seed):
    drawing = goods.Drawing(np.random.default_rng(seed), [goods.box(0.4, 0.4, 0.1)], [])
    return drawing.arranged(goods.box(0.3, 0.2, 1).moved(0.1, 0.2, -0.5), place)


@pytest.mark.parametrize("seed", range(8))
def test_a_subject_stands_on_the_floor_or_on_its_prop(seed):
    for place in ("alone", "behind", "leans"):
        assert abs(arranged(place, seed)[0].low[2]) < 1e-4
    subject, props = arranged("on", seed)
    assert abs(subject.low[2] - props[0].high[2]) < 1e-4
    middle = (subject.low + subject.high)[:2] / 2
    assert (props[0].low[:2] < middle).all() and (middle < props[0].high[:2]).all()


@pytest.mark.parametrize("seed", range(8))
def test_what_a_subject_leans_on_touches_it_and_what_is_before_it_is_nearer_to_the_camera(seed):
    subject, props = arranged("leans", seed)
    below = subject.vertices[subject.vertices[:, 2] < props[0].high[2]]
    assert abs(props[0].low[1] - below[:, 1].max()) < 1e-4
    subject, props = arranged("behind", seed)
    assert props[0].high[1] < subject.low[1] + 1e-4


def test_a_box_and_a_cylinder_have_the_given_size_and_stand_on_the_floor():
    for solid, size in ((goods.box(2, 3, 4), [2, 3, 4]), (goods.cylinder(2, 5), [2, 2, 5])):
        assert np.allclose(solid.high - solid.low, size, atol=1e-5) and abs(solid.low[2]) < 1e-6
