"""The canvas under the painters: a frame is redrawn in part, and must look as if it had been drawn whole."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock
from paddock.envs.drawing.canvas import Backdrop, Canvas, near
from paddock.kernels.env import as_array
from paddock.kernels.vector import tile

SIZE = (60, 40)
places = st.tuples(st.floats(-30, 90), st.floats(-30, 70))
widths = st.floats(0, 30)
shapes = st.one_of(
    st.tuples(st.just("polygon"), st.lists(places, min_size=3, max_size=6)),
    st.tuples(st.just("circle"), places, widths),
    st.tuples(st.just("ring"), places, widths, widths),
    st.tuples(st.just("ellipse"), places, widths, widths),
    st.tuples(st.just("line"), places, places, widths),
    st.tuples(st.just("text"), st.just("Q"), places, st.floats(4, 40)),
)


def drawn(shapes, canvas=None):
    canvas = Canvas() if canvas is None else canvas
    for number, (name, *numbers) in enumerate(shapes):
        getattr(canvas, name)(*numbers, (40 * number % 256, 200, 90))
    return canvas


def backdrop(canvas):
    return Backdrop(SIZE, (250, 240, 230), canvas)


@given(st.lists(shapes, max_size=4), st.lists(shapes, max_size=4))
def test_frame_looks_as_if_everything_had_been_drawn_at_once(behind, moving):
    whole = as_array(backdrop(drawn(moving, drawn(behind))).frame(Canvas()))
    assert np.array_equal(as_array(backdrop(drawn(behind)).frame(drawn(moving))), whole)


@given(st.lists(shapes, max_size=4), st.lists(shapes, max_size=4))
def test_frames_leave_the_backdrop_as_it_was(behind, moving):
    scene = backdrop(drawn(behind))
    empty = as_array(scene.frame(Canvas()))
    scene.frame(drawn(moving))
    assert np.array_equal(as_array(scene.frame(Canvas())), empty)


@given(st.floats())
def test_any_number_can_be_a_place(number):
    scene = backdrop(Canvas())
    scene.frame(drawn([("circle", (number, 10.0), 5.0), ("line", (10.0, number), (number, 10.0), 3.0)]))
    assert abs(near(number)) <= 10_000


def test_edges_are_smooth():
    frame = as_array(backdrop(drawn([("polygon", [(5.0, 5.0), (55.0, 12.0), (30.0, 35.0)])])).frame(Canvas()))
    assert len(np.unique(frame.reshape(-1, 3), axis=0)) > 2


@pytest.mark.parametrize(("count", "size"), [(1, (60, 40)), (2, (120, 40)), (3, (120, 80)), (5, (180, 80))])
def test_tiles_fill_a_grid_row_by_row(count, size):
    pictures = [np.full((40, 60, 3), 10 * (at + 1), np.uint8) for at in range(count)]
    grid = tile(pictures)
    assert grid.get_size() == size
    columns = size[0] // 60
    assert [grid.get_at((at % columns * 60 + 30, at // columns * 40 + 20))[0] for at in range(count)] == [
        10 * (at + 1) for at in range(count)
    ]


def test_tiles_shrink_until_they_fit_a_display():
    grid = tile([np.zeros((400, 600, 3), np.uint8)] * 64)
    assert grid.get_size()[0] <= 1280 and grid.get_size()[1] <= 800
    assert math.isclose(grid.get_size()[0] / grid.get_size()[1], 1.5, rel_tol=0.02)


def test_the_dealers_cards_lie_open_once_the_player_sticks():
    env = paddock.make("Blackjack-v1", render_mode="rgb_array")
    for seed in range(60):  # until a dealer has 17 or more with two cards, and so draws none
        env.reset(seed=seed)
        before = env.render()
        env.step(0)
        if len(env.unwrapped.dealer) == 2:
            break
    assert len(env.unwrapped.dealer) == 2
    assert (env.render() != before).any()
