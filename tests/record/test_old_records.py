"""Records of paddock 0.1.0 whose code lay in other files: traces, snapshots and specs are still read, checked and run.

Nothing in ``golden/`` is ever written again: it is what users have on their disks.
"""

import base64
import hashlib
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import paddock
from paddock import EnvSpec, WrapperSpec
from paddock.making.build import load
from paddock.record import TrajectoryDigest, environment_digest
from paddock.record.digest import known_digests
from paddock.record.trace import TraceReader, TraceWriter, replay
from paddock.spaces import Box
from paddock.wrappers import ClipReward, FrameStackObservation, TimeLimit, vector
from tests.record.walk import Walk

GOLDEN = Path(__file__).parent / "golden"
TRACES = sorted(path.stem for path in GOLDEN.glob("*.jsonl"))
SPECS = json.loads((GOLDEN / "specs.json").read_text())
SNAPSHOTS = json.loads((GOLDEN / "snapshots.json").read_text())
SNAPSHOTS_OF_LANES = json.loads((GOLDEN / "snapshots_of_lanes.json").read_text())
FOREIGN = "acme."  # code that is not on this machine

specs = pytest.mark.parametrize("name", SPECS)


def test_the_files_are_those_that_were_written_then():
    rows = [line.split() for line in (GOLDEN / "SHA256SUMS").read_text().splitlines()]
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in GOLDEN.iterdir()}
    del found["SHA256SUMS"]
    assert found == {name: digest for digest, name in rows}


@specs
def test_a_spec_of_then_has_its_digest_of_then(name):
    spec = EnvSpec.from_json(SPECS[name]["json"])
    assert SPECS[name]["digest"] == known_digests(spec)[1]


@specs
def test_the_code_that_a_spec_of_then_names_is_found(name):
    spec = EnvSpec.from_json(SPECS[name]["json"])
    wrappers = [wrapper.entry_point for wrapper in spec.additional_wrappers]
    for path in filter(None, (spec.entry_point, spec.vector_entry_point, *wrappers)):
        assert path.startswith(FOREIGN) or callable(load(path))


@pytest.mark.process
@pytest.mark.parametrize("name", [name for name in SPECS if name.startswith("wrapped: ")])
def test_a_stack_of_then_is_made_and_is_the_one_of_today(name):
    spec = EnvSpec.from_json(SPECS[name]["json"])
    env = paddock.make(spec)
    assert env.spec.additional_wrappers == spec.additional_wrappers
    assert environment_digest(env.spec) == environment_digest(spec)
    env.close()


@pytest.mark.parametrize("id", [name for name in SPECS if name in paddock.registry])
def test_a_built_in_spec_of_then_is_the_environment_of_today(id):
    assert environment_digest(EnvSpec.from_json(SPECS[id]["json"])) == environment_digest(paddock.spec(id))


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_of_then_replays(name):
    episodes = list(TraceReader(GOLDEN / f"{name}.jsonl"))
    with env_of(name, episodes[0].spec) as env:
        again = replay(episodes, env)
    assert (again.difference, again.other_environment, again.episodes) == (None, None, len(episodes))


def env_of(name, spec):
    if name == "other_code":  # the spec named a class, which no trace carries
        stack = [TimeLimit.wrapper_spec(max_episode_steps=6), FrameStackObservation.wrapper_spec(stack_size=3)]
        return paddock.make(EnvSpec("golden/Walk-v0", Walk), wrappers=stack)
    return paddock.make(spec)


def test_another_environment_than_that_of_then_is_named():
    again = replay(GOLDEN / "cartpole.jsonl", paddock.make(paddock.spec("CartPole-v0")))
    assert "Episode 0 was recorded from CartPole-v1" in again.other_environment


def test_a_seal_of_then_holds():
    reader = TraceReader(GOLDEN / "sealed.jsonl")
    assert len(list(reader)) == 2
    assert reader.sealed


def test_an_episode_of_then_can_be_written_again(tmp_path):
    from paddock.record.trace.writer import Opening

    (episode, _) = TraceReader(GOLDEN / "wrapped_lists.jsonl")
    with TraceWriter(tmp_path / "t.jsonl") as trace:
        trace.begin(Opening.like(episode, about={})).end()
    (again,) = TraceReader(tmp_path / "t.jsonl")
    assert again.digest == episode.digest


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_snapshot_of_then_goes_on(name):
    row = SNAPSHOTS[name]
    with paddock.make(EnvSpec.from_json(row["stack"]) if "stack" in row else paddock.spec(row["id"])) as env:
        env.reset(seed=11)
        env.restore(base64.b64decode(row["snapshot"]))
        digest = TrajectoryDigest()
        digest.reset(None, None)
        env.action_space.seed(2)
        for _ in range(row["steps"]):
            action = env.action_space.sample()
            digest.step(action, *env.step(action)[:4])
    assert digest.hexdigest() == row["digest"]


@pytest.mark.process
@pytest.mark.parametrize("name", SNAPSHOTS_OF_LANES)
def test_a_snapshot_of_lanes_of_then_goes_on(name):
    row = SNAPSHOTS_OF_LANES[name]
    env = paddock.make_vec(row["id"], num_envs=3, **row["make"])
    for wrapper, arguments in row["wrappers"]:
        env = getattr(vector, wrapper)(env, **arguments)
    env.reset(seed=9)
    env.restore(base64.b64decode(row["snapshot"]))
    digest = TrajectoryDigest()
    digest.reset(None, None)
    env.action_space.seed(2)
    for _ in range(4):
        actions = env.action_space.sample()
        digest.step(actions, env.step(actions)[:4], 0.0, False, False)
    env.close()
    assert digest.hexdigest() == row["digest"]


def test_code_is_found_by_its_name_when_its_file_is_gone():
    spec = EnvSpec(
        "CartPole-v1",
        "paddock.envs.gone.away:CartPoleEnv",
        max_episode_steps=500,
        additional_wrappers=(WrapperSpec("ClipReward", "paddock.wrappers.gone:ClipReward", {"max_reward": 0.5}),),
    )
    with paddock.make(spec) as env:
        assert [wrapper.entry_point for wrapper in env.spec.additional_wrappers] == ["paddock.wrappers:ClipReward"]
        today = paddock.make("CartPole-v1", wrappers=[ClipReward.wrapper_spec(max_reward=0.5)])
        assert environment_digest(env.spec) == environment_digest(today.spec)
    assert load("paddock.wrappers.vector.gone:ClipReward") is vector.ClipReward


def test_a_built_in_id_with_other_code_is_another_environment():
    own, other = paddock.spec("CartPole-v1"), EnvSpec("CartPole-v1", "acme.pole:Pole", max_episode_steps=500)
    unknown = EnvSpec("CartPole-v1", max_episode_steps=500)
    assert len({environment_digest(own), environment_digest(other), environment_digest(unknown)}) == 3


# Box([-1, 0], [1, inf], dtype=float32), whose bounds were of a class in paddock.spaces.box_bounds.
BOX_PICKLE = """
gASVogEAAAAAAACMEnBhZGRvY2suc3BhY2VzLmJveJSMA0JveJSTlCmBlH2UKIwGX3NoYXBllEsChZSMBWR0eXBllIwFbnVtcHmUjAVkdHlwZZ
STlIwCZjSUiYiHlFKUKEsDjAE8lE5OTkr/////Sv////9LAHSUYowKX25wX3JhbmRvbZROjAZib3VuZHOUjBlwYWRkb2NrLnNwYWNlcy5ib3hf
Ym91bmRzlIwFQm91bmSUk5SMFm51bXB5Ll9jb3JlLm11bHRpYXJyYXmUjAxfcmVjb25zdHJ1Y3SUk5RoCIwHbmRhcnJheZSTlEsAhZRDAWKUh5
RSlChLAUsChZRoDYlDCAAAgL8AAAAAlHSUYmgXaBlLAIWUaBuHlFKUKEsBSwKFlGgKjAJiMZSJiIeUUpQoSwOMAXyUTk5OSv////9K/////0sA
dJRiiUMCAQGUdJRiiYeUgZRoFGgXaBlLAIWUaBuHlFKUKEsBSwKFlGgNiUMIAACAPwAAgH+UdJRiaBdoGUsAhZRoG4eUUpQoSwFLAoWUaCeJQw
IBAJR0lGKJh5SBlIaUdWIu
"""


def test_a_pickle_of_a_box_names_a_module_that_is_gone_and_still_loads():
    pickled = base64.b64decode(BOX_PICKLE)
    assert b"paddock.spaces.box_bounds" in pickled
    assert pickle.loads(pickled) == Box(np.float32([-1, 0]), np.float32([1, np.inf]), dtype=np.float32)
