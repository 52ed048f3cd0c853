"""EnvSpec and its JSON: Gymnasium's text, and one InvalidSpec for everything that is not it."""

import copy
import json
import subprocess
import sys

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock
import paddock.gym as gym
from paddock import EnvSpec, WrapperSpec
from paddock.errors import InvalidSpec
from paddock.wrappers import TimeLimit


def test_fields_and_json_keys_are_gymnasiums():
    theirs, ours = gymnasium.spec("CartPole-v1"), EnvSpec("CartPole-v1", "a.b:C")
    assert list(vars(ours)) == list(vars(theirs))
    assert list(json.loads(ours.to_json())) == list(json.loads(theirs.to_json()))


def test_json_round_trip():
    spec = EnvSpec(
        "me/X-v3",
        "tests.toys:Counter",
        reward_threshold=1.5,
        nondeterministic=True,
        max_episode_steps=9,
        kwargs={"goal": 2, "deep": {"a": [1, None, "x"]}},
        additional_wrappers=(WrapperSpec("TimeLimit", "paddock.wrappers:TimeLimit", {"max_episode_steps": 4}),),
    )
    assert EnvSpec.from_json(spec.to_json()) == spec


def test_a_spec_written_by_gymnasium_makes_our_environment():
    text = gymnasium.spec("CartPole-v1").to_json()
    env = paddock.make(EnvSpec.from_json(text))
    assert type(env.unwrapped).__module__.startswith("paddock.envs")
    assert env.spec.max_episode_steps == 500


def test_a_wrapper_named_by_gymnasium_is_ours():
    spec = copy.deepcopy(gymnasium.spec("CartPole-v1"))
    limit = gymnasium.envs.registration.WrapperSpec(
        "TimeLimit", "gymnasium.wrappers.common:TimeLimit", {"max_episode_steps": 3}
    )
    spec.additional_wrappers = (limit,)
    env = paddock.make(EnvSpec.from_json(spec.to_json()))
    assert type(env) is TimeLimit


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        "{}",
        '{"id": 5}',
        '{"id": "X-v0", "entry_point": 5}',
        '{"id": "X-v0", "entry_point": "a:b", "kwargs": []}',
        '{"id": "X-v0", "surprise": 1}',
        '{"id": "not an id", "entry_point": "a:b"}',
        '{"id": "X-v0", "max_episode_steps": -7}',
        '{"id": "X-v0", "max_episode_steps": 1e999}',
        '{"id": "X-v0", "max_episode_steps": ' + "9" * 5000 + "}",
        '{"id": "X-v0", "additional_wrappers": [7]}',
        '{"id": "X-v0", "kwargs": ' + "[" * 10**5 + "]" * 10**5 + "}",
        '{"id": "X-v0", "kwargs": ' + '{"a":' * 10**5 + "1" + "}" * 10**5 + "}",
        '{"id": "X-v0", "kwargs": {"a": ' + "[" * 40 + "]" * 40 + "}}",
        '{"id": "X-v0", "kwargs": {"a": "\\ud800"}}',
        b"\xff\xfe",
        "x" * (1 << 21),
        None,
        7,
    ],
    ids=lambda text: repr(text)[:40],
)
def test_hostile_json_is_one_clear_error(text):
    with pytest.raises(InvalidSpec):
        EnvSpec.from_json(text)


LEAVES = st.none() | st.booleans() | st.integers() | st.text()


@pytest.mark.slow
@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_json_value_is_refused_or_a_spec(value):
    try:
        spec = EnvSpec.from_json(json.dumps(value))
    except InvalidSpec:
        return
    assert spec.id


@pytest.mark.parametrize("kwargs", [{"f": print}, {"a": {"b": [lambda: 0]}}, {"x": object()}, {1: 2}])
def test_what_json_cannot_hold_is_named(kwargs):
    with pytest.raises(ValueError, match="X-v0.kwargs"):
        EnvSpec("X-v0", "a:b", kwargs=kwargs).to_json()


def test_a_callable_entry_point_has_no_json():
    with pytest.raises(ValueError, match="Callable found"):
        EnvSpec("X-v0", lambda: None).to_json()


def test_pprint_shows_what_is_not_default():
    spec = EnvSpec("X-v0", "a:b", max_episode_steps=3)
    assert spec.pprint(disable_print=True) == "id=X-v0\nmax_episode_steps=3"
    assert "entry_point=a:b" in spec.pprint(disable_print=True, include_entry_points=True)
    assert "order_enforce=True" in spec.pprint(disable_print=True, print_all=True)


def test_a_spec_makes_its_environment():
    assert isinstance(gym.spec("CartPole-v1").make().unwrapped, paddock.envs.CartPoleEnv)


DECODED_IN_THREADS = """
import importlib, sys, threading
from paddock.core import spec_json
from paddock.core.spec import EnvSpec

text = spec_json.encode_spec(EnvSpec("Left-v0", "shelf:Left"))
sys.setswitchinterval(1e-6)
for _ in range(50):
    importlib.reload(spec_json)  # as in a process that has decoded nothing yet
    together = threading.Barrier(8)
    threads = [threading.Thread(target=lambda: (together.wait(), spec_json.decode_spec(text))) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
"""


@pytest.mark.process
def test_threads_may_decode_the_first_specs_at_the_same_moment():
    done = subprocess.run([sys.executable, "-c", DECODED_IN_THREADS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
