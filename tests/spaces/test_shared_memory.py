"""Shared memory for batches equals Gymnasium's over all spaces; named tests where Gymnasium's is wrong."""

import multiprocessing

import gymnasium.error
import gymnasium.vector.utils as peers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock.spaces as ours
from paddock.errors import CustomSpaceError, InvalidLanes, InvalidSpace
from paddock.spaces.batch import batch_space, concatenate, create_empty_array
from paddock.spaces.shared_memory import create_shared_memory, read_from_shared_memory, write_to_shared_memory
from tests.spaces.twins import CATALOGUE, same, twin

DYNAMIC = [name for name in CATALOGUE if name.startswith(("sequence", "graph"))]
FIXED = [name for name in CATALOGUE if name not in DYNAMIC]


def layout(memory):
    """The C types and lengths of all the arrays, in the memory's own structure."""
    if isinstance(memory, tuple):
        return tuple(map(layout, memory))
    if isinstance(memory, dict):
        return {key: layout(part) for key, part in memory.items()}
    return memory.get_obj()._type_, len(memory.get_obj())


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", FIXED)
def test_memory_and_what_is_read_from_it_equal_gymnasiums(name, n):
    space = CATALOGUE[name]()
    peer = twin(space)
    space.seed(5)
    mine, theirs = create_shared_memory(space, n), peers.create_shared_memory(peer, n)
    assert layout(mine) == layout(theirs)
    for _ in range(3):
        assert same(read_from_shared_memory(space, mine, n), peers.read_from_shared_memory(peer, theirs, n))
        for lane in range(n):
            value = space.sample()
            write_to_shared_memory(space, lane, value, mine)
            peers.write_to_shared_memory(peer, lane, value, theirs)
    assert same(read_from_shared_memory(space, mine, n), peers.read_from_shared_memory(peer, theirs, n))


@pytest.mark.parametrize("name", FIXED)
def test_what_was_written_is_read_as_the_batch(name):
    space = CATALOGUE[name]()
    space.seed(6)
    memory = create_shared_memory(space, 4)
    items = [space.sample() for _ in range(4)]
    for lane in (2, 0, 3, 1):
        write_to_shared_memory(space, lane, items[lane], memory)
    batch = read_from_shared_memory(space, memory, 4)
    assert same(batch, concatenate(space, items, create_empty_array(space, 4)))
    assert batch in batch_space(space, 4)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_the_context_makes_the_arrays(method):
    space = ours.Dict(a=ours.Box(0, 1, (2,)), b=ours.OneOf([ours.Text(3), ours.Discrete(2)]))

    class Counting:
        made = 0

        def Array(self, *arguments):
            self.made += 1
            return multiprocessing.get_context(method).Array(*arguments)

    context = Counting()
    memory = create_shared_memory(space, n=2, ctx=context)
    assert context.made == 4
    write_to_shared_memory(space, 1, {"a": np.ones(2), "b": (0, "abc")}, memory)
    assert read_from_shared_memory(space, memory, n=2)["b"][1] == (0, "abc")


def _fill(space, lane, value, memory):
    write_to_shared_memory(space, lane, value, memory)


def test_another_process_sees_and_writes_the_same_memory():
    context = multiprocessing.get_context("spawn")
    space = ours.Dict(a=ours.Box(-9, 9, (2,), np.float16), t=ours.Text(4))
    memory = create_shared_memory(space, 2, ctx=context)
    value = {"a": np.array([1.5, -2], np.float16), "t": "abcd"}
    child = context.Process(target=_fill, args=(space, 1, value, memory))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    batch = read_from_shared_memory(space, memory, 2)
    assert batch["a"].tolist() == [[0, 0], [1.5, -2]]
    assert batch["t"][1] == "abcd"


def test_arrays_that_are_read_are_views_of_the_memory():
    space = ours.Box(0, 1, (2,))
    memory = create_shared_memory(space, 2)
    batch = read_from_shared_memory(space, memory, 2)
    write_to_shared_memory(space, 1, np.array([0.25, 0.5]), memory)
    assert batch.tolist() == [[0, 0], [0.25, 0.5]]
    batch[0] = 1
    assert list(memory) == [1, 1, 0.25, 0.5]


@given(st.text(alphabet="zyxé😀\0", max_size=6))
def test_text_comes_back_as_it_was(text):
    space = ours.Text(6, min_length=0, charset="zyxé😀\0")
    memory = create_shared_memory(space, 2)
    write_to_shared_memory(space, 1, "zyxzyx", memory)
    write_to_shared_memory(space, 1, text, memory)
    assert read_from_shared_memory(space, memory, 2)[1] == text


@pytest.mark.parametrize("name", DYNAMIC)
def test_spaces_without_a_fixed_size_are_refused_as_in_gymnasium(name):
    space = CATALOGUE[name]()
    for whole in (space, ours.Tuple([ours.Discrete(2), space])):
        with pytest.raises(TypeError) as theirs:
            peers.create_shared_memory(twin(whole))
        with pytest.raises(TypeError) as mine:
            create_shared_memory(whole)
        assert str(mine.value) == str(theirs.value)
        assert isinstance(mine.value, InvalidSpace)


class Custom(ours.Space):
    pass


CALLS = [
    ("create_shared_memory", (1,)),
    ("read_from_shared_memory", ({},)),
    ("write_to_shared_memory", (0, 1, {})),
]


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_spaces_without_a_rule_and_what_is_no_space_are_refused_as_in_gymnasium(name, arguments):
    mine, theirs = globals()[name], getattr(peers, name)
    with pytest.raises(gymnasium.error.CustomSpaceError, match=f"registered `{name}` function"):
        theirs(gymnasium.spaces.Space(), *arguments)
    with pytest.raises(CustomSpaceError, match=f"registered `{name}` function"):
        mine(Custom(), *arguments)
    for function in (mine, theirs):
        with pytest.raises(TypeError, match=f"provided to `{name}` is not a gymnasium Space instance"):
            function("space", *arguments)
    if name != "create_shared_memory":
        with pytest.raises(CustomSpaceError):
            mine(ours.Sequence(ours.Discrete(2)), *arguments)


class Registered(ours.Space):
    pass


@create_shared_memory.register(Registered)
def _create(space, n=1, ctx=multiprocessing):
    return ctx.Array("i", n)


@read_from_shared_memory.register(Registered)
def _read(space, shared_memory, n=1):
    return tuple(shared_memory)


@write_to_shared_memory.register(Registered)
def _write(space, index, value, shared_memory):
    shared_memory[index] = value


def test_a_space_with_rules_of_its_own_uses_them():
    space = ours.Dict(mine=Registered())
    memory = create_shared_memory(space, 3)
    write_to_shared_memory(space, 1, {"mine": 8}, memory)
    assert read_from_shared_memory(space, memory, 3) == {"mine": (0, 8, 0)}


@pytest.mark.parametrize("value", [np.zeros(3), np.zeros((2, 2)), "word"])
def test_a_value_that_does_not_fit_is_refused_as_in_gymnasium(value):
    space = ours.Box(0, 1, (2,))
    for library, one in (((create_shared_memory, write_to_shared_memory), space), (peers_pair(), twin(space))):
        create, write = library
        with pytest.raises(ValueError, match="could not"):
            write(one, 0, value, create(one, 2))


def peers_pair():
    return peers.create_shared_memory, peers.write_to_shared_memory


@pytest.mark.parametrize("index", [-1, 2, 7])
@pytest.mark.parametrize("name", ["discrete", "box-scalar", "box", "text", "tuple", "dict", "one-of", "box-bool"])
def test_a_lane_that_does_not_exist_is_refused(name, index):
    """Gymnasium drops what is written there without a word if it is one number."""
    space = CATALOGUE[name]()
    memory = create_shared_memory(space, 2)
    with pytest.raises(InvalidLanes, match=f"index={index} is not a lane of this memory, which has 2"):
        write_to_shared_memory(space, index, space.sample(), memory)


def test_alternatives_that_are_tuples_or_dicts_are_read_by_lane():
    """Gymnasium reads the lane's number as the number of a part: lane 1 gets part 1 of all lanes."""
    space = ours.OneOf(
        [
            ours.Tuple([ours.Discrete(5), ours.Box(0, 9, (2,))]),
            ours.Dict(a=ours.Discrete(3), b=ours.Tuple([ours.Text(2)])),
            ours.OneOf([ours.Discrete(9), ours.MultiBinary(2)]),
        ]
    )
    box = np.array([1, 2], np.float32)
    items = [(0, (3, box)), (1, {"a": 2, "b": ("hi",)}), (2, (1, np.array([0, 1], np.int8))), (0, (1, box * 2))]
    memory = create_shared_memory(space, 4)
    for lane, item in enumerate(items):
        write_to_shared_memory(space, lane, item, memory)
    read = read_from_shared_memory(space, memory, 4)
    assert [(index, repr(value)) for index, value in read] == [
        (0, repr((np.int64(3), box))),
        (1, repr({"a": np.int64(2), "b": ("hi",)})),
        (2, repr((np.int64(1), np.array([0, 1], np.int8)))),
        (0, repr((np.int64(1), box * 2))),
    ]
    assert all(one in space for one in read)


def test_an_alternative_that_could_not_be_written_is_not_the_lanes():
    """Gymnasium notes the alternative first, so the lane then holds another alternative's old value."""
    space = ours.OneOf([ours.Discrete(5), ours.Box(0, 9, (2,))])
    memory = create_shared_memory(space, 1)
    write_to_shared_memory(space, 0, (0, 3), memory)
    with pytest.raises(ValueError):
        write_to_shared_memory(space, 0, (1, np.zeros(3)), memory)
    assert read_from_shared_memory(space, memory, 1) == ((0, 3),)
