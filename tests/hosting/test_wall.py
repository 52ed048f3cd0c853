"""The wall on observations, rewards, flags and infos: honest values pass bit for bit, any single lie is found."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paddock.errors import EnvFailed, EnvironmentViolation, InvalidAction, WorkerLost
from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.failures import walled_error
from paddock.hosting.judge import Judge, WallRules
from paddock.hosting.messages import JSON_BYTES, Call, Done, Failed, Outcome
from paddock.hosting.untrusted import is_open_object
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence, Struct, Text, Tuple
from tests.hosting.exactness import assert_same
from tests.spaces.strategies import leaf_spaces, spaces

POSITION = Box(-1, 1, (3,))
NESTED = Dict({"position": POSITION, "kind": Tuple([Discrete(4), MultiBinary(2)])})
HONEST = {"position": np.zeros(3, np.float32), "kind": (np.int64(3), np.zeros(2, np.int8))}


def passed(value):
    """The value as it arrives from a worker."""
    return decode_frame(b"".join(encode(Done(value), 1)))[1].value


def stepped(wall, observation=None, reward=1.0, terminated=False, truncated=False, info=None):
    observation = np.zeros(3, np.float32) if observation is None else observation
    return wall.step([[observation, reward, terminated, truncated, {} if info is None else info]])


def path_of(call, *args, **kwargs):
    with pytest.raises(EnvironmentViolation) as caught:
        call(*args, **kwargs)
    assert caught.value.path in str(caught.value)
    return caught.value.path


@given(spaces, st.integers(0, 2**31 - 1))
@settings(max_examples=200, deadline=None)
def test_an_honest_value_of_any_space_passes_bit_for_bit(space, seed):
    space.seed(seed)
    value = space.sample()
    arrived = passed([value, {"value": 1}])
    observation, info = Judge(space).reset(arrived)
    assert_same(observation, passed(value))
    assert observation is arrived[0] and info is arrived[1]


def lies(space, value, path="observation"):
    """What a worker could say in the place of an honest value, each with the place where it shows."""
    if isinstance(space, (Box, MultiDiscrete, MultiBinary)):
        yield from lies_of_arrays(space, value, path)
    elif isinstance(space, Discrete):
        for lie in (int(space.start) - 1, int(space.start) + int(space.n), True, 1.0, "1", None):
            yield lie, path
    elif isinstance(space, Text):
        yield "x" * (space.max_length + 1), path
        yield value.encode(), path
    elif isinstance(space, Tuple):
        yield list(value), path
        yield (*value, 0), path
        for i, part in enumerate(space.spaces):
            for lie, place in lies(part, value[i], f"{path}[{i}]"):
                yield (*value[:i], lie, *value[i + 1 :]), place
    elif isinstance(space, Dict):
        yield list(value), path
        for key, part in space.spaces.items():
            yield {other: value[other] for other in value if other != key}, f"{path}[{key!r}]"
            for lie, place in lies(part, value[key], f"{path}[{key!r}]"):
                yield {**value, key: lie}, place
        yield {**value, "no such key": 0}, f"{path}['no such key']"
    elif isinstance(space, Sequence) and not space.stack:
        yield list(value), path
        for i, item in enumerate(value):
            for lie, place in lies(space.feature_space, item, f"{path}[{i}]"):
                yield (*value[:i], lie, *value[i + 1 :]), place


def lies_of_arrays(space, value, path):
    yield value.tolist(), path
    yield value[None], path
    yield value.astype(np.float64 if space.dtype != np.float64 else np.float32), path
    yield value.astype(object), path
    yield value.tobytes(), path
    if not value.size:
        return
    last = "".join(f"[{size - 1}]" for size in value.shape)
    if space.dtype.kind == "f":
        wrong = value.copy()
        wrong.reshape(-1)[-1] = np.nan
        yield wrong, path + last
    if isinstance(space, MultiBinary):
        wrong = value.copy()
        wrong.reshape(-1)[-1] = 2
        yield wrong, path + last
    elif isinstance(space, Box) and space.dtype.kind != "b":
        high = space.high.reshape(-1)[-1]
        most = np.inf if space.dtype.kind == "f" else np.iinfo(space.dtype).max
        if high < most:
            wrong = value.copy()
            wrong.reshape(-1)[-1] = np.nextafter(high, space.dtype.type(most)) if space.dtype.kind == "f" else high + 1
            yield wrong, path + last


@pytest.mark.slow
@given(spaces, st.integers(0, 2**31 - 1), st.data())
@settings(max_examples=200, deadline=None)
def test_any_single_lie_is_found_where_it_stands(space, seed, data):
    assume("\\" not in repr(space))  # a path shows keys as they print, which is for the next test
    space.seed(seed)
    found = list(lies(space, space.sample()))
    assume(found)
    lie, place = data.draw(st.sampled_from(found))
    assert path_of(Judge(space).reset, [lie, {}]) == place


def test_paths_are_those_of_python():
    wall = Judge(NESTED)
    wall.reset([HONEST, {}])
    wrong = np.array([0, 0, 1.5], np.float32)
    assert path_of(wall.reset, [{**HONEST, "position": wrong}, {}]) == "observation['position'][2]"
    assert path_of(wall.reset, [{**HONEST, "kind": (4, HONEST["kind"][1])}, {}]) == "observation['kind'][0]"


def test_infinity_passes_where_the_space_has_no_bound_and_only_there():
    wall = Judge(Box(np.array([-1, -np.inf]), np.array([np.inf, 1]), dtype=np.float64))
    wall.reset([np.array([np.inf, -np.inf]), {}])
    assert path_of(wall.reset, [np.array([-np.inf, 0]), {}]) == "observation[0]"
    assert path_of(wall.reset, [np.array([np.nan, 0]), {}]) == "observation[0]"


@pytest.mark.parametrize("reward", [0.0, 1, -5.5, np.float32(2.5), np.float16(1), np.int8(-3), np.float64(1e9), -1e9])
def test_a_finite_number_within_the_range_is_a_reward(reward):
    assert stepped(Judge(POSITION), reward=reward)[1] is reward


@pytest.mark.parametrize(
    "reward",
    [
        *(np.nan, np.inf, -np.inf, 1e308, 2e9, -2e9, 10**400, np.float32(np.inf), np.float64(np.nan), np.uint64(2**63)),
        *(None, True, np.True_, "1", b"1", [1.0], np.array(1.0), np.array([1.0]), 1 + 0j, np.complex64(1)),
    ],
)
def test_anything_else_is_none(reward):
    assert path_of(stepped, Judge(POSITION), reward=reward) == "reward"


def test_infinity_is_no_reward_whatever_the_range_says():
    wall = Judge(POSITION, WallRules(reward_range=(-np.inf, np.inf)))
    assert stepped(wall, reward=1e308)[1] == 1e308
    assert path_of(stepped, wall, reward=np.inf) == "reward"
    assert path_of(stepped, wall, reward=np.float32(-np.inf)) == "reward"


@pytest.mark.parametrize("name", ["terminated", "truncated"])
@pytest.mark.parametrize("flag", [0, 1, 2, None, "False", 1.0, np.int8(1), np.array(True)])
def test_only_a_bool_is_a_flag(name, flag):
    assert path_of(stepped, Judge(POSITION), **{name: flag}) == name


def test_bools_of_numpy_are_flags():
    assert stepped(Judge(POSITION), terminated=np.True_, truncated=np.False_)[2:4] == (np.True_, np.False_)


numbers = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.binary(max_size=8), st.sampled_from([np.float32(1.5)])
)
harmless = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=6)
infos = st.dictionaries(
    harmless,
    st.recursive(
        st.one_of(numbers, harmless, st.just(np.arange(3)), st.just(np.zeros((2, 2), bool))),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(harmless, inner, max_size=3),
        ),
        max_leaves=6,
    ),
    max_size=3,
)


@given(infos)
@settings(deadline=None)
def test_an_honest_info_passes_bit_for_bit(info):
    arrived = passed(info)
    kept = stepped(Judge(POSITION), info=arrived)[4]
    assert kept is arrived
    assert_same(kept, passed(info))


def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("info", "path"),
    [
        (5, "info"),
        ([], "info"),
        ({1: 2}, "info"),
        ({("a",): 2}, "info"),
        ({"a": {2: 3}}, "info['a']"),
        ({"a": [0, 1, 2, POSITION]}, "info['a'][3]"),
        ({"a": np.random.default_rng(0)}, "info['a']"),
        ({"a": np.array([1, "x"], object)}, "info['a']"),
        ({"a": np.array(["x"])}, "info['a']"),
        ({"a": 1 + 2j}, "info['a']"),
        ({"a": (1, {"b": Failed("X", "y")})}, "info['a'][1]['b']"),
        ({"a": deep(9)}, "info['a'][0][0][0][0][0][0][0]"),
        ({"a": "x" * 70_000}, "info"),
        ({"a": "ä" * 17_000}, "info"),
        ({"a": b"x" * 70_000}, "info"),
        ({"a": np.zeros(9_000)}, "info"),
        ({"a": [None] * 4_100}, "info"),
        ({"a": {str(i): {} for i in range(4_097)}}, "info"),
        ({f"{i:0100}": None for i in range(700)}, "info"),
    ],
)
def test_an_info_of_other_types_or_past_its_bounds_is_refused(info, path):
    assert path_of(stepped, Judge(POSITION), info=info) == path


def test_text_in_an_info_is_made_plain_without_touching_what_came():
    came = {"a\x1b[2J": ["\x1b]0;title\x07ok", 1], "b": np.ones(2)}
    info = stepped(Judge(POSITION), info=came)[4]
    assert info["a"] == ["ok", 1] and info["b"] is came["b"]
    assert came["a\x1b[2J"][0].startswith("\x1b")


def test_two_keys_that_are_one_when_plain_are_refused():
    assert path_of(stepped, Judge(POSITION), info={"a": 1, "a\x07": 2}) == "info['a']"


def test_only_a_lane_may_tell_of_a_last_observation():
    wall, big = Judge(Box(0, 1, (200, 200)), lane=0), np.zeros((200, 200), np.float32)
    info = wall.info({"final_obs": big, "final_info": {"a": 1}})
    assert info["final_obs"] is big and info["final_info"] == {"a": 1}
    assert path_of(wall.info, {"final_obs": big + 2}) == "info['final_obs'][0][0]"
    assert path_of(Judge(Box(0, 1, (200, 200))).info, {"final_obs": big}) == "info"


@pytest.mark.parametrize(
    "value",
    [None, [], 5, "x", [[]], [None], [1, 2], {}, [[1, 2, 3, 4]], [[1] * 6], ({},), [(HONEST, 1.0, False, False, {})]],
)
def test_a_reply_that_is_no_step_is_refused(value):
    assert path_of(Judge(NESTED).step, value) == "step()"


@pytest.mark.parametrize("value", [None, [], 5, [HONEST], [HONEST, {}, 1], (HONEST, {}), {"a": 1}])
def test_a_reply_that_is_no_reset_is_refused(value):
    assert path_of(Judge(NESTED).reset, value) == "reset()"


def test_a_state_has_a_name_a_count_and_something_to_show():
    wall = Judge(POSITION)
    assert wall.state(["an id", 3, {"a": 1}]) == ("an id", 3, {"a": 1})
    assert wall.state([None, None, {}]) == (None, None, {})
    assert wall.state(["\x1b[31mred", 0, "\x07"]) == ("red", 0, "")
    assert path_of(wall.state, [None, -1, {}]) == "state().step_count"
    assert path_of(wall.state, [None, True, {}]) == "state().step_count"
    assert path_of(wall.state, [5, 1, {}]) == "state().episode_id"
    assert path_of(wall.state, ["x" * 1000, 1, {}]) == "state().episode_id"
    assert path_of(wall.state, [None, 1, np.array([None])]) == "state().public"
    assert path_of(wall.state, [None, 1]) == "state()"


def test_pictures_and_texts_are_as_their_mode_says():
    wall, picture = Judge(POSITION), np.zeros((4, 4, 3), np.uint8)
    assert wall.render(picture, "rgb_array") is picture
    assert wall.render([picture, picture], "rgb_array_list")[1] is picture
    assert wall.render("\x1b[31mred\x1b[0m\x1b[2J", "ansi") == "\x1b[31mred\x1b[0m"
    assert wall.render("\x1b[31mred", "human") == "red"
    assert path_of(wall.render, "text", "rgb_array") == "render()"
    assert path_of(wall.render, picture, "ansi") == "render()"
    assert path_of(wall.render, np.array([None]), "rgb_array") == "render()"
    assert path_of(wall.render, picture.astype(complex), "rgb_array") == "render()"
    assert path_of(wall.render, picture[0], "rgb_array") == "render()"
    assert path_of(wall.render, picture[None], "depth_array") == "render()"
    assert path_of(wall.render, [[[picture]]], "rgb_array_list") == "render()[0][0]"


def test_attributes_may_be_more_than_infos_may():
    wall, generator = Judge(POSITION), np.random.default_rng(1)
    assert wall.value(generator, "np_random") is generator
    assert wall.value({1: (POSITION, 2j)}, "things") == {1: (POSITION, 2j)}
    assert wall.value(np.array(["a\x07"]), "names").tolist() == ["a"]
    assert path_of(wall.value, 5, "np_random") == "np_random"
    assert path_of(wall.value, "5", "np_random_seed") == "np_random_seed"
    assert path_of(wall.value, True, "np_random_seed") == "np_random_seed"
    assert path_of(wall.read, Call(0, "a", how="set"), Done("x")) == "set_wrapper_attr('a')"
    assert wall.read(Call(0, "a", how="set"), Done(True)) is True
    assert path_of(wall.value, [np.array([None])], "things") == "things[0]"
    assert path_of(wall.value, [Box(0, 1, (2**24,), np.float64)], "things") == "things[0]"


def test_the_other_replies_have_one_form_each():
    wall, has = Judge(POSITION), Call(0, "a", how="has")
    for kind in ("callable", "value", ""):
        assert wall.read(has, Done(kind)) == kind
    assert wall.snapshot(b"x") == b"x"
    for lie in (True, ["callable"], "x", b"", np.array("")):
        assert path_of(wall.read, has, Done(lie)) == "has_wrapper_attr()"
    assert path_of(wall.snapshot, "x") == "snapshot()"


def test_a_failure_keeps_its_kind_and_loses_its_escapes():
    error = Judge(POSITION).failure(Failed("ENV_FAILED", "\x1b[2Jno", "ValueError", "line\x1b[1A 1"))
    assert isinstance(error, EnvFailed) and isinstance(error, ValueError)
    assert str(error) == "no" and error.trace == "line 1"
    assert isinstance(Judge(POSITION).failure(Failed("INVALID_ACTION", "2")), InvalidAction)


@pytest.mark.parametrize("code", ["ENV_LOST", "DEADLINE", "ENV_VIOLATION", "SANDBOX_UNAVAILABLE", "NO_SUCH_CODE"])
def test_a_worker_can_not_speak_in_the_name_of_this_side(code):
    error = Judge(POSITION).failure(Failed(code, "I am lost"))
    assert type(error) is EnvFailed


def test_a_failure_of_any_length_becomes_a_short_one():
    error = Judge(POSITION).failure(Failed("ENV_FAILED", "x" * 10**6, "y" * 10**6, "z" * 10**6))
    assert len(str(error)) <= 4_000 and len(error.trace) <= 16_000 and len(error.error_type) <= 100


@pytest.mark.parametrize("kind", ["MemoryError", "_ArrayMemoryError"])
def test_a_worker_that_is_out_of_memory_is_lost_to_that(kind):
    with pytest.raises(WorkerLost, match="ran out of memory") as caught:
        Judge(POSITION).step([Failed("ENV_FAILED", "no room", kind)])
    assert caught.value.cause == "memory"


@given(leaf_spaces, st.recursive(st.one_of(numbers, harmless), lambda x: st.lists(x, max_size=3), max_leaves=8))
@settings(deadline=None)
def test_no_reply_raises_anything_but_a_violation(space, value):
    wall = Judge(space)
    for read in (
        wall.reset,
        wall.step,
        wall.state,
        wall.snapshot,
        lambda one: wall.read(Call(0, "a", how="has"), Done(one)),
        lambda one: wall.render(one, "ansi"),
    ):
        try:
            read(value)
        except EnvironmentViolation:
            continue


def missing(path, kind="FileNotFoundError", text="[Errno 2] No such file or directory: {!r}", **where):
    return str(walled_error(Failed("ENV_FAILED", text.format(str(path)), kind), **where))


@pytest.mark.parametrize("kind", ["FileNotFoundError", "PermissionError"])
def test_a_file_that_is_here_and_not_behind_the_wall_is_told_with_its_permission(tmp_path, kind):
    here = tmp_path / "levels.txt"
    here.touch()
    asked = f'read = ["{here}"] under [permissions] in paddock.toml, or Policy(read=…).'
    assert missing(here, kind).endswith(asked)
    assert missing(tmp_path / "levels it's.txt", kind).endswith("levels it's.txt\"")


def test_no_permission_is_advised_for_what_is_not_here_or_not_a_missing_file(tmp_path):
    (tmp_path / "a\nb").touch()
    assert "permissions" not in missing(tmp_path / "nothing")
    assert "permissions" not in missing(tmp_path, "ValueError")
    assert "permissions" not in missing(tmp_path, server=True)  # its files are of another machine
    assert "permissions" not in missing("relative")
    for text in ("{}", "'{}\nb'", "'{}' is mine", "'/{}" + "/." * 3000 + "'"):
        assert "permissions" not in missing(tmp_path, text=text), text


# Observations of environments written for OpenEnv: any JSON object

ANY_OBJECT = Struct.from_schema({"type": "object", "additionalProperties": True})
NOT_JSON = [float("nan"), float("inf"), b"x", np.int64(1), np.zeros(1), {1: 2}, {"a": (1, 2)}, {"a": Failed("A", "b")}]
JSON = [None, True, 1, 2**70, 1.5, "é", [], [1, [2, {"a": None}]], {"a": {"b": []}}]


@pytest.mark.parametrize("value", [*JSON, *NOT_JSON], ids=repr)
def test_the_quick_test_of_an_open_object_says_what_the_space_says(value):
    for observation in ({"part": value}, {"part": [value]}, value):
        try:
            Judge(ANY_OBJECT).observation(observation)
            passes = True
        except EnvironmentViolation:
            passes = False
        assert passes is ANY_OBJECT.contains(observation)


def test_an_outcome_becomes_the_five_results():
    wall = Judge(ANY_OBJECT)
    assert is_open_object(ANY_OBJECT) and not is_open_object(NESTED)
    assert wall.outcome(Outcome(b'{"a":[1,2.5]}', 1.0, True, False)) == ({"a": [1, 2.5]}, 1.0, True, False, {})


@pytest.mark.parametrize(
    ("text", "reward", "path"),
    [
        (b"", 0.0, "observation"),
        (b"[1]", 0.0, "observation"),
        (b'{"a":NaN}', 0.0, "observation"),
        (b'{"a":1}}', 0.0, "observation"),
        (b'{"a":"\xff"}', 0.0, "observation"),
        (b'{"a":"\\ud800"}', 0.0, "observation"),
        (b'{"a":' + b"[" * 100_000, 0.0, "observation"),
        (b'{"a":' + b"[" * 60 + b"]" * 60 + b"}", 0.0, "observation"),
        (b'{"a":"' + b"x" * JSON_BYTES + b'"}', 0.0, "observation"),
        (b"{}", float("nan"), "reward"),
        (b"{}", float("inf"), "reward"),
        (b"{}", 1e300, "reward"),
    ],
)
def test_a_lie_in_an_outcome_is_found(text, reward, path):
    assert (
        path_of(Judge(ANY_OBJECT, WallRules(reward_range=(-1, 1))).outcome, Outcome(text, reward, False, False)) == path
    )
