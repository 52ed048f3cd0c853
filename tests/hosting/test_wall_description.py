"""What a worker says that an environment is: bounded, plain, and only data."""

import json

import numpy as np
import pytest
from hypothesis import assume, given, settings

from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.errors import EnvironmentViolation
from paddock.hosting.judge import WallRules, read_description, read_spec
from paddock.hosting.messages import Description
from paddock.hosting.untrusted import check_size, read_space, value_bytes
from paddock.sandbox.plain_text import drives_terminal
from paddock.sandbox.policy import Policy
from paddock.spaces import Box, Dict, Discrete, Graph, MultiBinary, Sequence, Text, Tuple
from tests.spaces.strategies import spaces

RULES = WallRules()
KNOWN = {"observation_space": None, "action_space": None, "metadata": {}}


def described(**fields):
    return read_description({**KNOWN, **fields}, RULES)


def read(space):
    return read_space(space.to_json(), "observation_space", limit=RULES.space_bytes)


def nested(kind, levels):
    space = Discrete(2)
    for _ in range(levels):
        space = kind(space)
    return space


@given(spaces)
@settings(deadline=None)
def test_an_honest_space_is_rebuilt_as_it_is(space):
    assume(not drives_terminal(repr(space)) and "\\" not in repr(space))
    assert read(space) == space


def test_a_discrete_space_of_any_size_costs_nothing():
    space = read(Discrete(2**62))
    assert space.sample() in space


@pytest.mark.parametrize(
    "space",
    [
        Box(0, 1, (2**25 + 1,), "float64"),
        MultiBinary(2**26),
        Text(2**26),
        Tuple([Box(0, 1, (2**20,), "float64") for _ in range(40)]),
        nested(Sequence, 12),
        nested(lambda inner: Graph(inner, inner), 6),
    ],
    ids=["Box", "MultiBinary", "Text", "Tuple", "Sequence", "Graph"],
)
def test_a_space_whose_values_would_fill_memory_is_refused(space):
    limit = min(RULES.space_bytes, value_bytes(space) - 1)
    with pytest.raises(EnvironmentViolation, match="more than the") as caught:
        read_space(space.to_json(), "observation_space", limit=limit)
    assert caught.value.path == "observation_space"


def test_bounds_hold_for_the_usual_limit():
    with pytest.raises(EnvironmentViolation):
        read(Box(0, 1, (2**13, 2**13), "float64"))
    with pytest.raises(EnvironmentViolation):
        read(nested(Sequence, 12))
    assert read(Box(0, 255, (2160, 3840, 3), "uint8")).shape == (2160, 3840, 3)


def test_lanes_are_counted_together():
    space = Box(0, 255, (1080, 1920, 3), "uint8")
    check_size(space, "observation_space", limit=RULES.lanes_bytes, count=64)
    with pytest.raises(EnvironmentViolation, match="200 lanes"):
        check_size(space, "observation_space", limit=RULES.lanes_bytes, count=200)


def test_a_space_may_not_declare_what_drives_a_terminal():
    for space in (Text(5, charset="ab\x1b"), Dict({"\x1b[2J": Discrete(2)}), Tuple([Text(2, charset="\u202e")])):
        with pytest.raises(EnvironmentViolation, match="drives a terminal"):
            read(space)


@pytest.mark.parametrize("text", ["", "{}", "[" * 10_000, '{"paddock":1}', "x" * (1 << 23), None, 5, b"{}"])
def test_a_text_that_is_no_space_is_refused(text):
    with pytest.raises(EnvironmentViolation):
        read_space(text, "action_space", limit=RULES.space_bytes)


def test_metadata_is_plain_and_of_the_usual_types():
    made = described(metadata={"render_modes": ["human"], "render_fps": 50, "note": "\x1b[31mred"}, render_mode="human")
    assert made.metadata == {"render_modes": ["human"], "render_fps": 50, "note": "red"}
    for metadata, path in [
        ({"render_modes": ["human", 5]}, "metadata['render_modes']"),
        ({"render_modes": ["x"] * 65}, "metadata['render_modes']"),
        ({"render_fps": float("nan")}, "metadata['render_fps']"),
        ({"render_fps": "30"}, "metadata['render_fps']"),
        ({"x": "y" * 70_000}, "metadata"),
    ]:
        with pytest.raises(EnvironmentViolation) as caught:
            described(metadata=metadata)
        assert caught.value.path == path


@pytest.mark.parametrize("modes", [["x"] * 64, ("human", "ansi"), []], ids=["64 modes", "a tuple", "none"])
@pytest.mark.parametrize("fps", [0, 30, 0.5, np.float32(30), np.int64(30), None])
def test_metadata_may_have_64_modes_and_any_finite_rate(modes, fps):
    metadata = {"render_modes": modes, "render_fps": fps}
    assert described(metadata=metadata).metadata == metadata


@pytest.mark.parametrize("fps", [float("inf"), -1, -0.5, np.float64("inf"), [30]])
def test_a_rate_that_no_clock_has_is_refused(fps):
    with pytest.raises(EnvironmentViolation) as caught:
        described(metadata={"render_fps": fps})
    assert caught.value.path == "metadata['render_fps']"


def test_the_name_of_a_mode_is_plain_and_has_64_characters():
    assert described(render_mode="x" * 64).render_mode == "x" * 64
    for mode in ("x" * 65, "\x1b[2Jhuman"):
        with pytest.raises(EnvironmentViolation) as caught:
            described(render_mode=mode)
        assert caught.value.path == "render_mode"


def test_the_name_of_a_class_of_its_own_is_cut():
    assert described(custom="x" * 200).custom == "x" * 200
    assert described(custom="x" * 201).custom == "x" * 199 + "…"


def test_a_spec_may_have_a_mebibyte_of_text():
    text = json.dumps({"id": "Thing-v0"}).ljust(1 << 20)
    assert read_spec(described(spec=text), RULES) == EnvSpec("Thing-v0")
    with pytest.raises(EnvironmentViolation, match="spec: it is malformed: longer than 1048576 bytes"):
        described(spec=text + " ")


def test_what_is_wrong_with_a_spec_is_said_in_300_characters():
    with pytest.raises(EnvironmentViolation) as caught:
        read_spec(described(spec=json.dumps({"id": "A-v0", "y" * 1000: 1})), RULES)
    problem = (
        str(caught.value).removeprefix("spec: it is malformed: ").removesuffix(". The environment has been stopped.")
    )
    assert len(problem) == 300 and problem.endswith("y…")


def test_a_trusted_worker_describes_its_environment_as_it_likes():
    metadata = {"render_modes": 5, "note": "\x1b[31mred"}
    made = read_description({**KNOWN, "metadata": metadata, "spec": '{"id": "A-v0", "entry_point": "a:B"}'}, None)
    assert made.metadata == metadata
    assert read_spec(made, None) == EnvSpec("A-v0", entry_point="a:B")


@pytest.mark.parametrize("rules", [None, RULES], ids=["trusted", "walled"])
def test_an_environment_may_have_no_spec(rules):
    assert read_spec(read_description(KNOWN, rules), rules) is None


def test_a_spec_is_data_and_names_no_code():
    code = "no.such.module:Thing"
    spec = EnvSpec("ns/Thing-v0", entry_point=code, vector_entry_point=code, kwargs={"a": "\x1b[2Jb"})
    spec.additional_wrappers = (WrapperSpec("Thing", code, {}),)
    found = read_spec(described(spec=spec.to_json()), RULES)
    assert found == EnvSpec("ns/Thing-v0", kwargs={"a": "b"})


@pytest.mark.parametrize("name", ["a_module:X-v0", "a:b/X-v0", ".folder", ".."])
def test_an_id_that_make_would_take_for_code_gives_no_spec(name):
    assert read_spec(described(spec=json.dumps({"id": name})), RULES) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "5", "[" * 10_000, json.dumps({"id": "A-v0", "extra": 1}), "x" * (1 << 21), '{"id": NaN}']
)
def test_a_text_that_is_no_spec_is_refused(text):
    with pytest.raises(EnvironmentViolation) as caught:
        read_spec(described(spec=text), RULES)
    assert caught.value.path == "spec"


@pytest.mark.parametrize("value", [None, 5, [], {}, {"metadata": {}}, "x", Description("", "", {})])
def test_what_is_no_description_is_refused(value):
    if isinstance(value, Description):
        assert read_description(value, RULES).metadata == {}
        return
    with pytest.raises(EnvironmentViolation):
        read_description(value, RULES)


def test_rules_come_from_a_policy():
    rules = WallRules.of(Policy(reward_range=(0, 1), info_kb=2, call_s=3, start_s=4))
    assert (rules.reward_range, rules.info.bytes, rules.call_s, rules.start_s) == ((0.0, 1.0), 2048, 3, 4)
