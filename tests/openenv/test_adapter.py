"""Environments written for OpenEnv as Envs of ours."""

import asyncio
import threading

import pytest

import paddock
from paddock.errors import ClosedEnvironmentError, InvalidAction, InvalidSpec
from paddock.openenv import Action, AsEnv, Environment, Observation, State
from paddock.openenv.app import import_path, served_spec
from paddock.sources.openenv_classes import is_openenv, record_classes
from tests.openenv import worlds


@pytest.fixture
def env():
    with AsEnv(worlds.EchoEnv) as made:
        yield made


def test_observation_has_all_its_fields_and_the_raw_reward(env):
    observation, info = env.reset(seed=3, options={"colour": "red", "episode_id": "ep"})
    assert observation == {
        "done": False,
        "reward": 0.0,
        "metadata": {},
        "echoed": "ready",
        "length": 0,
        "anything": {"seed": 3, "colour": "red"},
    }
    assert info == {}
    assert env.state().episode_id == "ep"


@pytest.mark.parametrize(
    ("text", "raw", "number"),
    [("true", True, 1.0), ("one", 1, 1.0), ("none", None, 0.0), ("nan", None, 0.0), ("hi", 1.0, 1.0)],
)
def test_a_reward_is_a_float_and_what_it_was_stays_in_the_observation(env, text, raw, number):
    env.reset()
    observation, reward, *_ = env.step({"text": text})
    assert (observation["reward"], reward, type(reward)) == (raw, number, float)


def test_done_is_terminated(env):
    env.reset()
    assert env.step({"text": "end"})[2:] == (True, False, {})


@pytest.mark.parametrize(
    ("fields", "flags"),
    [
        ({"done": True}, (True, False)),
        ({"done": True, "truncated": True}, (False, True)),
        ({"done": True, "terminated": True, "truncated": True}, (True, True)),
        ({"done": False, "terminated": True}, (True, False)),
        ({}, (False, False)),
    ],
)
def test_flags_of_the_observation_are_used_where_it_has_them(fields, flags):
    cls = type(
        "Flagged", (worlds.EchoObservation,), {"__annotations__": {name: bool for name in fields if name != "done"}}
    )

    class Ends(worlds.EchoEnv):
        def step(self, action: worlds.EchoAction, **kwargs):
            return cls(**fields)

    with AsEnv(Ends) as env:
        assert env.step({"text": "a"})[2:4] == flags


def test_actions_are_instances_or_their_fields_and_coerced_as_pydantic_does(env):
    env.reset()
    for action in (worlds.EchoAction(text="a", times=2), {"text": "a", "times": "2"}, {"text": "a", "times": 2.0}):
        assert env.step(action)[0]["echoed"] == "aa"


@pytest.mark.parametrize("action", [{"text": 5}, {}, {"text": "a", "x": 1}, {"text": "rude"}, 7, None])
def test_an_action_that_its_class_refuses_never_reaches_the_environment(env, action):
    env.reset()
    with pytest.raises(InvalidAction):
        env.step(action)
    assert env.state().step_count == 0


def test_reset_gets_only_the_arguments_that_it_has_names_for():
    with AsEnv(worlds.Quiet) as env:
        assert env.reset(seed=5, options={"colour": "red"})[0]["echoed"] == "ready"


def test_async_methods_are_preferred_and_run_in_one_loop():
    loops = []

    class Watched(worlds.AsyncEcho):
        async def step_async(self, action: worlds.EchoAction, **kwargs):
            loops.append(asyncio.get_running_loop())
            return await super().step_async(action)

    with AsEnv(Watched) as env:
        env.reset(seed=1)
        env.step({"text": "a"})
        assert env.step({"text": "ab"})[0]["echoed"] == "ab"
    assert loops[0] is loops[1]
    assert loops[0].is_closed()


def test_async_methods_run_also_where_a_loop_runs_already():
    async def main():
        with AsEnv(worlds.AsyncEcho) as env:
            env.reset()
            return env.step({"text": "a"})[0]["echoed"]

    assert asyncio.run(main()) == "a"


def test_state_is_that_of_the_environment(env):
    env.reset(options={"episode_id": "mine"})
    env.step({"text": "abc"})
    assert env.public_state() == {"episode_id": "mine", "step_count": 1, "total": 3}
    assert (env.state().episode_id, env.state().step_count, env.state().total) == ("mine", 1, 3)


def test_metadata_is_told(env):
    told = env.metadata["openenv"]
    assert (told["name"], told["description"], told["concurrent"]) == ("EchoEnv", "EchoEnv environment", True)


def test_tasks_are_answered_as_plain_data():
    with AsEnv(worlds.TaskEnv) as env:
        assert env.task("get_task", "train", 1) == {"id": "train-1"}
        with pytest.raises(IndexError):
            env.task("get_task", "train", 9)
        with pytest.raises(InvalidSpec):
            env.task("close")
    with AsEnv(worlds.EchoEnv) as env, pytest.raises(NotImplementedError):
        env.task("list_splits")


def test_classes_of_records_are_found_from_generics_and_from_annotations():
    class Bare(worlds.Environment):
        def reset(self, **kwargs): ...
        def step(self, action: worlds.EchoAction) -> worlds.EchoObservation: ...
        @property
        def state(self) -> worlds.EchoState: ...

    expected = (worlds.EchoAction, worlds.EchoObservation, worlds.EchoState)
    assert record_classes(worlds.EchoEnv) == expected
    assert record_classes(Bare) == expected


class Silent(Environment):
    def reset(self, seed=None, episode_id=None, **kwargs): ...

    def step(self, action, timeout_s=None, **kwargs):
        return Observation(metadata=action.model_dump())

    @property
    def state(self):
        return State()


class General(Silent):
    def step(self, action: Action, timeout_s=None, **kwargs) -> Observation:
        return super().step(action)


@pytest.mark.parametrize("cls", [Silent, General])
def test_a_class_that_names_no_class_of_actions_takes_what_it_is_sent(cls):
    with AsEnv(cls) as env:
        assert issubclass(env.action_cls, Action)
        assert env.step({"text": "hi", "more": [1]})[0]["metadata"] == {"metadata": {}, "text": "hi", "more": [1]}
        assert env.action_space.contains({"text": "hi"})


def test_a_base_class_that_was_named_on_purpose_forbids_other_fields():
    with AsEnv(General, Action, Observation) as env, pytest.raises(InvalidAction, match="text"):
        env.step({"text": "hi"})


def test_a_class_of_no_known_api_that_does_not_say_its_actions_class_is_refused_with_the_ways_out():
    class Bare:
        def reset(self, **kwargs): ...
        def step(self, action): ...

        state = None

    with pytest.raises(InvalidSpec, match="action_cls="):
        AsEnv(Bare)


def test_an_instance_is_refused_as_in_openenv():
    with pytest.raises(TypeError, match="env must be a callable"):
        AsEnv(worlds.EchoEnv())


def test_only_classes_in_openenvs_form_are_taken_for_such():
    class Gym:
        observation_space = None

        def reset(self): ...
        def step(self, action): ...
        def state(self): ...
        def get_metadata(self): ...

    assert is_openenv(worlds.EchoEnv)
    assert is_openenv(Environment)
    assert not is_openenv(Gym)
    assert not is_openenv(paddock.Env)
    assert not is_openenv(worlds.EchoEnv())


@pytest.mark.process
@pytest.mark.parametrize("isolation", [None, "process", "sandbox"])
def test_make_takes_the_class_by_its_place_at_every_distance(isolation):
    with paddock.make("tests.openenv.worlds:EchoEnv", isolation=isolation) as env:
        env.reset(seed=1)
        observation, reward, *_ = env.step({"text": "HI"})
        assert (observation["metadata"], reward) == ({"loud": True}, 1.0)
        with pytest.raises(InvalidAction, match="valid string"):
            env.step({"text": 1})
        assert env.state().step_count == 1


def test_a_spec_of_create_app_names_code_and_the_environment_shows_none_of_it():
    spec = served_spec(worlds.EchoEnv, worlds.EchoAction, worlds.EchoObservation, worlds.State)
    assert spec.entry_point == "tests.openenv.worlds:EchoEnv"
    assert spec.kwargs["action_cls"] == "tests.openenv.worlds:EchoAction"
    with paddock.make(spec) as env:
        assert env.reset()[0]["echoed"] == "ready"
        assert env.spec.kwargs == {}  # what a peer may set


def test_a_factory_is_served_when_its_classes_are_named():
    spec = served_spec(worlds.made, worlds.EchoAction, worlds.EchoObservation)
    with paddock.make(spec) as env:
        assert env.reset()[0]["echoed"] == "ready"


def test_what_has_no_place_in_a_module_goes_as_code_and_what_cannot_go_is_named():
    assert import_path(lambda: None) is None
    assert import_path(worlds.EchoEnv) == "tests.openenv.worlds:EchoEnv"
    spec = served_spec(lambda: worlds.EchoEnv(), worlds.EchoAction, worlds.EchoObservation, env_name="a name, é")
    assert (type(spec.kwargs["env"]), spec.id) == (bytes, "a-name-")
    with pytest.raises(paddock.errors.PlanError, match="runs only behind a wall"):
        paddock.make(spec)
    lock = threading.Lock()
    with pytest.raises(paddock.errors.PlanError, match="constructor"):
        served_spec(lambda: worlds.EchoEnv(lock), worlds.EchoAction, worlds.EchoObservation)


def test_a_closed_environment_says_so():
    env = AsEnv(worlds.EchoEnv)
    env.close()
    env.close()
    with pytest.raises(ClosedEnvironmentError):
        env.step({"text": "a"})
