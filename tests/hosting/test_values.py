"""Values come out as they went in, to the last bit, or do not go in at all and say why."""

import collections
import enum
import types

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paddock.core.spec import EnvSpec
from paddock.errors import BadFrame, NotTransferable
from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.messages import Done, Failed, Limits
from paddock.hosting.values import from_wire, to_wire
from paddock.spaces import Box, Discrete, GraphInstance, Space
from tests.case_names import case_name
from tests.hosting.exactness import assert_same
from tests.spaces.strategies import spaces


def crossed(value, **options):
    buffers = []
    plain = to_wire(value, buffers, **options)
    return from_wire(plain, bytearray(b"".join(buffers)))


texts = st.text(st.characters(exclude_categories=["Cs"]))
long_texts = st.builds(lambda text, n: text * n, st.text("aé€🐎", min_size=1, max_size=4), st.integers(250, 1030))
integers = st.one_of(st.integers(), st.integers(-(2**80), 2**80), st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64]))
plain_dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    hnp.byte_string_dtypes(endianness="?", min_len=1, max_len=5),
    hnp.unicode_string_dtypes(endianness="?", min_len=1, max_len=5),
)


@st.composite
def arrays(draw):
    dtype = draw(plain_dtypes)
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    size = int(np.prod(shape)) * dtype.itemsize
    if dtype.kind in "biufcS" and dtype.kind != "b":  # any bits at all: payloads of NaN, trailing zeros
        return np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype).reshape(shape).copy()
    return draw(hnp.arrays(dtype, shape))


scalars = st.one_of(
    arrays().filter(lambda array: array.size).map(lambda array: array.reshape(-1)[0]),
    texts.map(np.str_),
    st.binary().map(np.bytes_),
)
leaves = st.one_of(
    st.none(), st.booleans(), integers, st.floats(), st.complex_numbers(), texts, long_texts, st.binary()
) | st.one_of(arrays(), scalars)
hashable = st.one_of(st.none(), integers, st.floats(allow_nan=False), texts, st.just("$"), st.binary())
keys = st.one_of(hashable, st.tuples(hashable, hashable))


def _containers(inner):
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(texts, inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
        st.builds(GraphInstance, inner, inner, inner),
        st.lists(inner, min_size=6, max_size=6).map(lambda items: _objects(items, (2, 3))),
    )


def _objects(items, shape):
    flat = np.empty(len(items), object)
    for i, item in enumerate(items):
        flat[i] = item
    return flat.reshape(shape)


@pytest.mark.slow
@given(st.recursive(leaves, _containers, max_leaves=12))
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_nested_value_crosses_unchanged(value):
    assert_same(crossed(value), value)


@given(spaces, st.integers(0, 2**32))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_samples_of_every_space_and_the_space_itself_cross_unchanged(space, seed):
    space.seed(seed)
    samples = [space.sample(), space.sample()]
    assert_same(crossed(samples), samples)
    assert crossed(space) == space


def test_arrays_in_any_layout_arrive_contiguous_with_the_same_dtype():
    base = np.arange(24, dtype=">i4").reshape(4, 6)
    huge = np.arange(40_000.0).reshape(200, 200)
    for array in (base[::2], base.T, base[:, ::-1], np.broadcast_to(base[0], (3, 6)), huge.T, huge[::2, ::3]):
        got = crossed(array)
        assert_same(got, np.array(array, order="C"))


def test_nan_keeps_its_payload_and_zero_its_sign():
    bits = np.array([0x7FF8000000001234, 0xFFF0000000000001, 1 << 63], "<u8")
    values = [float(value) for value in bits.view("<f8")]
    assert_same(crossed(values), values)
    narrow = list(np.array([0x7FC01234, 0xFF800001, 1 << 31], "<u4").view("<f4"))
    assert_same(crossed(narrow), narrow)


def test_decoded_arrays_are_writable_and_share_nothing_with_the_next_message():
    first, second = crossed([np.zeros(3), np.zeros(2)]), crossed([np.zeros(3), np.zeros(2)])
    first[0][:] = 1
    assert not first[1].any() and not second[0].any()


def test_a_large_contiguous_array_is_lent_not_copied():
    array, buffers = np.zeros(1 << 16, "u1"), []
    to_wire(array, buffers)
    assert np.shares_memory(np.frombuffer(buffers[0], "u1"), array)


class Colour(str, enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Metres(float):
    def __repr__(self):
        return "metres"


def test_subclasses_cross_as_their_base():
    value = [Colour.RED, Level.HIGH, Metres(2.5), collections.OrderedDict(a=1), collections.defaultdict(list, b=2)]
    assert_same(crossed(value), ["red", 3, 2.5, {"a": 1}, {"b": 2}])
    assert_same(crossed({Colour.RED: 1, Level.HIGH: 2}), {"red": 1, 3: 2})


def test_a_generator_goes_on_with_the_same_numbers():
    generator = np.random.default_rng(5)
    generator.integers(0, 9, dtype=np.int32)  # leaves half a word behind
    copy = crossed(generator)
    assert_same(copy.integers(0, 9, 20, dtype=np.int32), generator.integers(0, 9, 20, dtype=np.int32))
    assert_same(copy.random(20), generator.random(20))


def test_a_spec_crosses():
    spec = EnvSpec("a/B-v1", "a:B", kwargs={"x": [1, None]}, reward_threshold=1.5)
    assert crossed(spec) == spec


def test_a_failed_always_crosses_even_with_broken_text():
    broken = Failed("E", "cannot open caf\udce9", "OSError", "t" * 5000)
    assert_same(crossed([broken]), [Failed("E", "cannot open caf\\udce9", "OSError", "t" * 5000)])


Point = collections.namedtuple("Point", "x y")


class Surface:
    pass


class Own(Space):
    def __init__(self):
        super().__init__((), np.int64)


@pytest.mark.parametrize(
    ("value", "path", "kind"),
    [
        ({"viewer": Surface()}, "info['viewer']", "tests.hosting.test_values.Surface"),
        ({"a": [1, ({}, {2: {3}})]}, "info['a'][1][1][2]", "set"),
        ({"p": Point(1, 2)}, "info['p']", "tests.hosting.test_values.Point"),
        ({Surface: 1}, "a key of info", "type"),
        ([bytearray(b"")], "info[0]", "bytearray"),
        ([lambda: 0], "info[0]", "function"),
        (GraphInstance(None, Surface(), None), "info.edges", "tests.hosting.test_values.Surface"),
        (_objects([1, Surface()], (1, 2)), "info[0, 1]", "tests.hosting.test_values.Surface"),
        (np.zeros(2, "M8[s]"), "info", "numpy.ndarray"),
        (np.zeros(2, [("a", "f4")]), "info", "numpy.ndarray"),
        (np.zeros(2, np.longdouble), "info", "numpy.ndarray"),
        (np.longdouble(1), "info", "numpy.longdouble"),
        (np.datetime64(0, "s"), "info", "numpy.datetime64"),
        (np.ma.zeros(2), "info", np.ma.MaskedArray.__module__ + ".MaskedArray"),
        (np.zeros(1).view(np.recarray), "info", np.recarray.__module__ + ".recarray"),
        (np.random.Generator(np.random.MT19937(0)), "info", "numpy.random._generator.Generator"),
        (np.random.RandomState(0), "info", "numpy.random.mtrand.RandomState"),
        (EnvSpec("A-v0", Surface), "info", "paddock.core.spec.EnvSpec"),
        (EnvSpec("A-v0", reward_threshold=float("inf")), "info", "paddock.core.spec.EnvSpec"),
        (Own(), "info", "tests.hosting.test_values.Own"),
        (["\ud800"], "info[0]", "str"),
        ([10**4200], "info[0]", "int"),
        (types.SimpleNamespace(), "info", "types.SimpleNamespace"),
    ],
    ids=case_name,
)
def test_what_is_no_wire_type_is_refused_by_path_and_type(value, path, kind):
    with pytest.raises(NotTransferable) as caught:
        to_wire(value, [], name="info")
    assert (caught.value.path, caught.value.kind) == (path, kind)
    assert str(caught.value).startswith(path) and "NumPy arrays" in str(caught.value)


def test_the_message_names_what_and_where_and_the_way_out():
    with pytest.raises(NotTransferable, match=r"^info\['viewer'\] is a tests\.hosting\.test_values\.Surface and "):
        to_wire({"viewer": Surface()}, [], name="info")


def test_values_that_hold_themselves_or_are_too_deep_are_refused():
    loop = []
    loop.append({"again": loop})
    deep = []
    for _ in range(64):
        deep = [deep]
    cyclic_objects = np.empty(1, object)
    cyclic_objects[0] = cyclic_objects
    for value in (loop, deep, cyclic_objects):
        with pytest.raises(NotTransferable, match="deeper than 64 levels, or holds itself"):
            to_wire(value, [], name="info")
    assert_same(crossed(deep[0]), deep[0])  # 64 levels


def test_a_web_of_shared_lists_is_refused_before_it_becomes_a_tree():
    web = [0]
    for _ in range(60):
        web = [web, web]
    with pytest.raises(NotTransferable, match="more items than"):
        to_wire(web, [], name="info")


@pytest.mark.parametrize(
    ("limits", "value", "words"),
    [
        (Limits(body_bytes=1 << 12), np.zeros(1 << 12), "more than 4096 bytes"),
        (Limits(pieces=3), [np.zeros(1)] * 4, "more than 3 arrays"),
        (Limits(text_bytes=3000), ["x" * 2000] * 2, "3000 bytes of text"),
        (Limits(json_bytes=60), [Discrete(2)], "60 bytes of spaces"),
        (Limits(odd_keys=2), {(i,): 0 for i in range(3)}, "3 keys that are not text"),
        (Limits(ndim=2), np.zeros((1, 1, 1)), "array of 3 axes"),
        (Limits(ndim=2), np.full((1, 1, 1), None), "array of 3 axes"),
    ],
    ids=case_name,
)
def test_bounds_hold_at_both_ends(limits, value, words):
    with pytest.raises(NotTransferable, match=words):
        encode(Done(value), limits=limits)
    with pytest.raises(BadFrame):
        decode_frame(b"".join(encode(Done(value))), limits=limits)


def test_only_with_a_pickler_does_anything_else_cross_and_only_to_an_unpickler():
    surface, buffers = Surface(), []
    plain = to_wire({"a": (surface, 1)}, buffers, pickler=lambda value: b"S" if value is surface else b"?")
    body = b"".join(buffers)
    assert body == b"S" + b"\0" * 7
    assert from_wire(plain, bytearray(body), unpickler=lambda data: [data]) == {"a": ([b"S"], 1)}
    with pytest.raises(BadFrame, match="does not accept"):
        from_wire(to_wire([surface], [], pickler=lambda value: b"S"), bytearray(body))


def test_what_the_pickler_can_not_carry_is_named():
    def pickler(value):
        raise AttributeError("local object")

    with pytest.raises(
        NotTransferable, match=r"^what\['fn'\] is a function, and pickle can't carry it: Attribute"
    ) as got:
        to_wire({"fn": lambda: 0}, [], name="what", pickler=pickler)
    assert len(str(got.value).split()) < 40  # what to do, and not all that could cross
    assert str(got.value).endswith("and create it in the environment.")


def test_what_the_unpickler_can_not_read_is_a_bad_frame_with_its_cause():
    def unpickler(data):
        raise ModuleNotFoundError("no module 'acme'")

    buffers = []
    plain = to_wire([Surface()], buffers, pickler=lambda value: b"S")
    with pytest.raises(BadFrame, match="no module 'acme'") as caught:
        from_wire(plain, bytearray(b"".join(buffers)), unpickler=unpickler)
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


_ZERO = {"$": "array", "dtype": "<f4", "shape": [0], "offset": 0}


@pytest.mark.parametrize(
    "plain",
    [
        {"$": "nonsense"},
        {"$": None},
        {"$": ["array"]},
        {"$": "array"},
        {**_ZERO, "dtype": "O"},
        {**_ZERO, "dtype": "<f16"},
        {**_ZERO, "dtype": "f4,f4"},
        {**_ZERO, "dtype": ["<f4"]},
        {**_ZERO, "dtype": "<U0"},
        {**_ZERO, "dtype": "<U999999999"},
        {**_ZERO, "dtype": "|S99999999999999"},
        {**_ZERO, "dtype": "<M8[s]"},
        {**_ZERO, "shape": [-1]},
        {**_ZERO, "shape": [True]},
        {**_ZERO, "shape": [1.0]},
        {**_ZERO, "shape": 0},
        {**_ZERO, "shape": [2**62, 2**62]},
        {**_ZERO, "shape": [0, 2**62]},
        {**_ZERO, "shape": [0] * 33},
        {**_ZERO, "offset": -1},
        {**_ZERO, "offset": 8},
        {**_ZERO, "offset": 0.0},
        {**_ZERO, "offset": False},
        {"$": "objects", "shape": [2], "items": [1]},
        {"$": "objects", "shape": [0, 2**63], "items": []},
        {"$": "scalar", "dtype": "<f4", "data": b"123"},
        {"$": "scalar", "dtype": "|b1", "data": b"\x02"},
        {"$": "scalar", "dtype": "O", "data": b"12345678"},
        {"$": "scalar", "dtype": "U", "data": b"x"},
        {"$": "scalar", "dtype": [], "data": b"x"},
        {"$": "tuple", "items": {}},
        {"$": "dict", "pairs": [[1]]},
        {"$": "dict", "pairs": [[[], 1]]},
        {"$": "dict", "pairs": [[{"$": "tuple", "items": [[]]}, 1]]},
        {"$": "dict", "pairs": [[1, 0], [1.0, 0]]},
        {"$": "int", "digits": "9" * 4097},
        {"$": "int", "digits": "1_0"},
        {"$": "int", "digits": "٣"},
        {"$": "int", "digits": 3},
        {"$": "complex", "real": 1, "imag": 2.0},
        {"$": "text", "offset": 0, "size": 1},
        {"$": "text", "offset": 0, "size": -1},
        {"$": "bytes", "offset": 0, "size": True},
        {"$": "failed", "code": "E", "message": b"", "error_type": "", "trace": ""},
        {"$": "space", "json": "{}"},
        {"$": "space", "json": '{"paddock":1,"type":"Box","low":1,"high":0,"shape":[1],"dtype":"int8"}'},
        {"$": "space", "json": 5},
        {"$": "spec", "json": '{"id": "no id"}'},
        {"$": "spec", "json": "[" * 5000},
        {"$": "generator", "state": b"", "inc": b"", "has_uint32": False, "uinteger": 0},
        {"$": "generator", "state": b"0" * 16, "inc": b"0" * 16, "has_uint32": 2, "uinteger": 0},
        {"$": "generator", "state": b"0" * 16, "inc": b"0" * 16, "has_uint32": True, "uinteger": 2**32},
        {"$": "pickled", "offset": 0, "size": 0},
        {1: 2},
        {"a": {(1, 2): 3}},
        [object()],
    ],
    ids=case_name,
)
def test_malformed_values_are_bad_frames(plain):
    with pytest.raises(BadFrame):
        from_wire(plain, bytearray())


def test_pieces_of_the_body_can_not_be_read_twice_or_left_over():
    marker = {"$": "bytes", "offset": 0, "size": 8}
    assert from_wire(dict(marker), bytearray(8)) == bytes(8)
    for plain, body in (([dict(marker), dict(marker)], bytearray(8)), (dict(marker), bytearray(16))):
        with pytest.raises(BadFrame):
            from_wire(plain, body)


def test_text_arrays_hold_code_points_and_bool_arrays_zeros_and_ones():
    marker = {"$": "array", "dtype": ">U1", "shape": [2], "offset": 0}
    with pytest.raises(BadFrame, match="not a code point"):
        from_wire(marker, bytearray(b"\x00\x00\x00\x41\x00\x11\x00\x00"))
    array = from_wire({"$": "array", "dtype": "|b1", "shape": [8], "offset": 0}, bytearray(b"\x00\x01\x02\xff" * 2))
    assert array.view("u1").tolist() == [0, 1, 1, 1] * 2


def test_keys_with_equal_hashes_are_bounded():
    modulus = 2**61 - 1  # of Python's hash of integers
    pairs = [[{"$": "int", "digits": str(modulus * (2**64 + i))}, None] for i in range(4097)]
    with pytest.raises(BadFrame, match="more than 4096 keys"):
        from_wire({"$": "dict", "pairs": pairs}, bytearray())


def test_dicts_of_many_integers_cross():
    table = {i: float(i) for i in range(20_000)}
    assert_same(crossed(table), table)


def test_a_box_with_bounds_crosses_in_the_body():
    space = Box(np.arange(300.0), np.arange(300.0) + 1, dtype=np.float64)
    buffers = []
    assert to_wire(space, buffers)["json"]["$"] == "text" and buffers
    assert crossed(space) == space
