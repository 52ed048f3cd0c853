"""Array conversion: the rules by NumPy and a tiny library of our own; Torch and JAX themselves in the `full` tests."""

import collections
import copy
import pickle
import sys
import textwrap
import time
import types

import numpy as np
import pytest

import paddock
from paddock import wrappers
from paddock.errors import DependencyNotInstalled, NoArrayForm
from paddock.testing import check_wrapper
from paddock.vector import SyncVectorEnv
from paddock.wrappers import vector
from paddock.wrappers.arrays import array_conversion, module_namespace
from tests.peers import run_with_peer
from tests.toys import Counter
from tests.wrappers import tiny_arrays
from tests.wrappers.lanes import lanes, one
from tests.wrappers.tiny_arrays import Tiny

TINY = "tests.wrappers.tiny_arrays"
Point = collections.namedtuple("Point", "x y")


class TinyEnv(Counter):
    """An environment whose every array is of the tiny library, and which takes no other."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self.options = options
        return Tiny(observation), {"at": Tiny(observation), "name": "tiny"}

    def step(self, action):
        assert type(action) is Tiny
        observation, reward, terminated, truncated, info = super().step(int(action.values))
        return Tiny(observation), Tiny(np.array(reward)), Tiny(np.array(terminated)), truncated, info


def test_an_environment_of_another_library_for_an_agent_of_numpy():
    env = wrappers.ArrayConversion(TinyEnv(goal=2), env_xp=tiny_arrays, target_xp=np)
    observation, info = env.reset(seed=0)
    assert type(observation) is np.ndarray
    assert type(info["at"]) is np.ndarray and info["name"] == "tiny"
    assert env.step(np.int64(1))[1:4] == (1.0, False, False)
    observation, reward, terminated, truncated, _ = env.step(1)
    assert observation.tolist() == [2.0]
    assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
    assert (reward, terminated) == (2.0, True)


def test_an_environment_of_numpy_for_an_agent_of_another_library():
    env = wrappers.ArrayConversion(Counter(), "numpy", TINY, target_device="there")
    observation, _ = env.reset()
    assert type(observation) is Tiny and observation.device == "there"
    assert env.step(Tiny(np.array(2)))[0].values.tolist() == [1.0]
    assert env.unwrapped.actions == [2]
    assert type(env.unwrapped.actions[0]) is np.ndarray


def test_memory_is_shared_where_it_can_be():
    values = np.arange(3.0)
    shared = array_conversion(values, tiny_arrays)
    assert np.shares_memory(shared.values, values)
    assert np.shares_memory(array_conversion(shared, np), values)
    values.flags.writeable = False
    assert not np.shares_memory(array_conversion(values, tiny_arrays).values, values)


def test_nested_values_keep_their_shape():
    value = {
        "t": (np.ones(2), [1, 2.5]),
        "p": Point(np.zeros(1), None),
        3: "text",
        "o": collections.OrderedDict(a=True),
    }
    found = array_conversion(value, tiny_arrays)
    assert list(found) == ["t", "p", 3, "o"]
    assert type(found["t"]) is tuple and type(found["t"][1]) is list and type(found["o"]) is collections.OrderedDict
    assert type(found["p"]) is Point and found["p"].y is None and found[3] == "text"
    assert [type(x) for x in (found["t"][0], *found["t"][1], found["p"].x, found["o"]["a"])] == [Tiny] * 5
    assert found["t"][1][1].values.dtype == np.float64


@pytest.mark.parametrize("scalar", [np.bool_(True), np.float32(1.5), np.int8(3), 2, 2.5, True])
def test_scalars_become_arrays_without_axes(scalar):
    found = array_conversion(scalar, np)
    assert type(found) is np.ndarray and found.shape == () and found == scalar
    assert found.dtype == np.asarray(scalar).dtype
    assert array_conversion(scalar, tiny_arrays).values == scalar


@pytest.mark.parametrize("value", [object(), {"a": [object()]}, np.array(["text"])])
def test_what_has_no_form_is_refused_by_the_function_and_kept_in_an_info(value):
    with pytest.raises(NoArrayForm, match="No known conversion for .* registered|has no form"):
        array_conversion(value, tiny_arrays)

    class Odd(Counter):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0], {"odd": value, "plain": 1}

    _, info = wrappers.ArrayConversion(Odd(), np, tiny_arrays).reset()
    assert info["odd"] == value
    assert type(info["plain"]) is Tiny


def test_a_class_of_the_users_own_has_a_rule_by_register():
    class Pose:
        at = np.ones(2)

    @array_conversion.register(Pose)
    def _(value, xp, device=None):
        return array_conversion(value.at, xp, device)

    assert type(array_conversion([Pose()], tiny_arrays)[0]) is Tiny


def test_arrays_in_options_are_converted_and_plain_numbers_are_not():
    env = wrappers.ArrayConversion(TinyEnv(), tiny_arrays, np)
    env.reset(options={"from": np.ones(2), "level": 3, "deep": {"mode": "easy", "xs": [np.zeros(1)]}})
    options = env.unwrapped.options
    assert type(options["from"]) is Tiny and type(options["deep"]["xs"][0]) is Tiny
    assert (options["level"], options["deep"]["mode"]) == (3, "easy")


def test_frames_are_converted_and_text_is_not():
    class Painter(Counter):
        def render(self):
            return self.frame

    env = wrappers.ArrayConversion(Painter(), np, tiny_arrays)
    env.unwrapped.frame = np.zeros((2, 2, 3), np.uint8)
    assert type(env.render()) is Tiny
    env.unwrapped.frame = "a text"  # Gymnasium returns "<generator object …>"
    assert env.render() == "a text"


def test_pickles_and_copies_keep_everything():
    env = wrappers.ArrayConversion(TinyEnv(), tiny_arrays, np)
    for again in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert again.action_space == env.action_space
        assert type(again.reset()[0]) is np.ndarray
        assert again._env_xp is tiny_arrays and again._target_xp is np
    several = vector.ArrayConversion(SyncVectorEnv([Counter] * 2), np, tiny_arrays)
    assert type(copy.deepcopy(several).reset()[0]) is Tiny


def test_metadata_say_which_arrays_come_out():
    env = Counter()
    env.metadata = {"render_modes": [], "jax": True}
    conversion = wrappers.ArrayConversion(env, tiny_arrays, np)
    assert conversion.metadata == {"render_modes": []}
    assert env.metadata == {"render_modes": [], "jax": True}


@pytest.mark.parametrize("module", [time, types.ModuleType("nothing")])
def test_a_module_without_arrays_is_refused_when_constructed(module):
    with pytest.raises(ValueError, match="is not an Array API compatible module"):
        module_namespace(module)


def test_a_module_that_has_the_names_only_is_refused():
    odd = types.SimpleNamespace(empty=lambda shape: object())
    with pytest.raises(NoArrayForm, match="Pass numpy, torch, jax.numpy"):
        module_namespace(odd)
    assert module_namespace(np) is np
    assert module_namespace(tiny_arrays) is tiny_arrays


def test_a_library_that_names_no_namespace_has_that_of_array_api_compat_where_it_is_installed(monkeypatch):
    library = types.ModuleType("library")  # as Torch is: arrays with DLPack, without __array_namespace__
    library.empty = lambda shape: types.SimpleNamespace(__dlpack__=None)
    monkeypatch.setitem(sys.modules, "array_api_compat", None)  # not installed
    assert module_namespace(library) is library
    standard = types.ModuleType("array_api_compat.library")
    monkeypatch.setitem(sys.modules, "array_api_compat", types.ModuleType("array_api_compat"))
    monkeypatch.setitem(sys.modules, standard.__name__, standard)
    assert module_namespace(library) is standard


@pytest.mark.parametrize("home", [wrappers, vector], ids=["single", "vector"])
@pytest.mark.parametrize(
    ("name", "package"),
    [("JaxToNumpy", "jax"), ("JaxToTorch", "jax"), ("NumpyToTorch", "torch"), ("TorchToNumpy", "torch")],
)
def test_a_missing_library_is_told_with_the_pip_command_when_constructed(home, name, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    env = Counter() if home is wrappers else SyncVectorEnv([Counter])
    with pytest.raises(DependencyNotInstalled, match=f"pip install {package}$"):
        getattr(home, name)(env)


def test_the_spec_is_plain_data_and_makes_the_wrapper_again(fresh_registry):
    paddock.register("Tiny-v0", "tests.wrappers.test_arrays:TinyEnv", disable_env_checker=True)
    env = wrappers.ArrayConversion(paddock.make("Tiny-v0"), tiny_arrays, np)
    again = paddock.make(paddock.EnvSpec.from_json(env.spec.to_json()))
    assert type(again) is wrappers.ArrayConversion
    assert type(again.reset(seed=1)[0]) is np.ndarray
    assert again.spec == env.spec


# Lanes.


@pytest.mark.parametrize(
    "env", [{}, {"observation": "dict"}, {"continuous": True}], ids=["array", "dict", "continuous"]
)
def test_n_lanes_there_and_back_are_n_single_environments_there_and_back(env, seed):
    check_wrapper(
        lambda lane: wrappers.ArrayConversion(wrappers.ArrayConversion(one(lane, **env), np, TINY), TINY, np),
        lambda mode: vector.ArrayConversion(vector.ArrayConversion(lanes(mode, 3, **env), np, TINY), TINY, np),
        steps=60,
        seed=seed,
    )


def test_the_whole_batch_and_the_last_observations_are_converted():
    mode = paddock.AutoresetMode.SAME_STEP
    several = vector.ArrayConversion(SyncVectorEnv([lambda: Counter(1), Counter], autoreset_mode=mode), np, TINY)
    assert type(several.reset(seed=0)[0]) is Tiny
    *results, infos = several.step(Tiny(np.array([1, 1])))
    assert [type(result) for result in results] == [Tiny] * 4
    assert results[1].values.dtype == np.float64 and results[2].values.tolist() == [True, False]
    assert type(infos["final_obs"][0]) is Tiny and infos["final_obs"][1] is None
    assert type(infos["_final_obs"]) is Tiny


def test_send_and_recv_convert_too_and_so_does_the_reset_mask():
    mode = paddock.AutoresetMode.DISABLED
    several = vector.ArrayConversion(SyncVectorEnv([Counter] * 2, autoreset_mode=mode), np, TINY)
    several.reset(seed=0)
    several.send(Tiny(np.array([0, 1])))
    assert several.recv()[0].values.tolist() == [[1.0], [1.0]]
    observations, _ = several.reset(options={"reset_mask": Tiny(np.array([True, False]))})
    assert observations.values.tolist() == [[0.0], [1.0]]


# Torch and JAX themselves.

HEAD = """
import json, warnings
warnings.simplefilter("error")
import numpy as np, torch
torch.set_num_threads(1)
import jax, jax.numpy as jnp
import paddock
from paddock import wrappers
from paddock.wrappers import vector
from paddock.wrappers.arrays import array_conversion
"""


def with_libraries(program):
    return run_with_peer("arrays", HEAD + textwrap.dedent(program))


@pytest.mark.peers
@pytest.mark.full
def test_an_environment_of_tensors_passes_check_env():
    answer = with_libraries(
        """
        from paddock.gym.utils.env_checker import check_env as gym_check_env
        from tests.wrappers.torch_envs import TensorCounter
        paddock.check_env(TensorCounter())
        gym_check_env(TensorCounter())
        warnings.simplefilter("ignore", UserWarning)  # that a wrapper is checked, not the environment itself
        env = wrappers.TorchToNumpy(TensorCounter())
        paddock.check_env(env)
        observation, _ = env.reset(seed=1)
        result = env.step(np.int64(1))
        back = wrappers.NumpyToTorch(env)
        paddock.check_env(back)
        print(json.dumps([type(observation).__name__, [type(x).__name__ for x in result],
                          type(back.reset()[0]).__name__, paddock.gym.wrappers.TorchToNumpy is wrappers.TorchToNumpy,
                          env.metadata.get("torch"), back.metadata.get("torch")]))
        """
    )
    assert answer == ["ndarray", ["ndarray", "float", "bool", "bool", "dict"], "Tensor", True, None, True]


@pytest.mark.peers
@pytest.mark.full
def test_memory_between_numpy_torch_and_jax():
    answer = with_libraries(
        """
        source = np.arange(64, dtype=np.float32)
        tensor = array_conversion(source, torch)
        tensor[0] = 7
        out = {"numpy to torch": float(source[0]) == 7, "torch to numpy": array_conversion(tensor, np)[0] == 7}
        grown = torch.ones(2, requires_grad=True)
        out["a tensor with gradient"] = array_conversion(grown, np).tolist() == [1, 1]
        out["bfloat16"] = array_conversion(torch.ones(2, dtype=torch.bfloat16), np).dtype == np.float32
        array = jnp.arange(4.0)
        seen = array_conversion(array, np)
        out["jax to numpy"] = np.shares_memory(seen, np.asarray(array)) and not seen.flags.writeable
        out["jax to torch"] = array_conversion(array, torch).data_ptr() == array.unsafe_buffer_pointer()
        for odd in (source[::-1], seen, source.astype(">f4"), source[::2]):
            assert array_conversion(odd, torch).tolist() == odd.tolist()
            assert array_conversion(odd, jnp).tolist() == odd.tolist()
        taken = array_conversion(tensor, jnp)
        copied = array_conversion(source, jnp)
        tensor[1] = 99  # jax computes later: what it was given must not change
        out["torch to jax"] = float(taken[1]) == 1.0
        out["numpy to jax"] = float(copied[1]) == 1.0
        out["strided"] = array_conversion(torch.arange(6).view(2, 3).T, jnp).tolist() == [[0, 3], [1, 4], [2, 5]]
        for device in ("cpu:0", jax.devices()[0]):
            out[f"jax on {device}"] = array_conversion(array, jnp, device).devices() == {jax.devices()[0]}
        for device in ("meta", torch.device("meta")):
            out[f"torch on {device!r}"] = array_conversion(array, torch, device).device.type == "meta"
        print(json.dumps({name: bool(value) for name, value in out.items()}))
        """
    )
    assert all(answer.values()), answer


@pytest.mark.peers
@pytest.mark.full
def test_n_lanes_of_tensors_are_n_single_environments():
    answer = with_libraries(
        """
        from paddock.testing import check_wrapper
        from tests.wrappers.lanes import lanes, one
        torch.set_default_dtype(torch.float64)  # of plain numbers in infos; those of lanes are float64 in any case
        for env in ({}, {"observation": "dict"}, {"continuous": True}):
            check_wrapper(
                lambda lane: wrappers.TorchToNumpy(wrappers.NumpyToTorch(one(lane, **env))),
                lambda mode: vector.TorchToNumpy(vector.NumpyToTorch(lanes(mode, 3, **env))),
                steps=60, seed=3)
            if env:  # jax's arrays have 32 bits unless it is told otherwise: x64 for the same numbers
                continue
            with jax.enable_x64(True):
                check_wrapper(
                    lambda lane: wrappers.JaxToNumpy(wrappers.ArrayConversion(one(lane), np, jnp)),
                    lambda mode: vector.JaxToNumpy(vector.ArrayConversion(lanes(mode, 3), np, jnp)),
                    steps=30, seed=3)
        print(json.dumps("equal"))
        """
    )
    assert answer == "equal"


@pytest.mark.peers
@pytest.mark.full
def test_values_are_gymnasiums():
    answer = with_libraries(
        """
        warnings.simplefilter("ignore")
        import gymnasium
        from gymnasium.wrappers import array_conversion as theirs_home
        theirs = theirs_home.array_conversion
        values = [1, 2.5, True, None, np.float32(3), np.arange(3), {"a": (np.ones(2, bool), [np.zeros((2, 2))])},
                  torch.arange(4), jnp.arange(3), (jnp.ones(2), {"b": torch.zeros(1)})]
        def told(value):
            if isinstance(value, dict):
                return {k: told(v) for k, v in value.items()}
            if isinstance(value, (tuple, list)):
                return [type(value).__name__, *map(told, value)]
            numbers = value.tolist() if hasattr(value, "tolist") else value
            return [type(value).__name__, str(getattr(value, "dtype", "")), str(numbers)]
        wrong = []
        for value in values:
            for xp in (np, torch, jnp):
                a, b = told(array_conversion(value, xp)), told(theirs(value, theirs_home.module_namespace(xp)))
                if a != b:
                    wrong.append([repr(value), xp.__name__, a, b])
        his = gymnasium.wrappers
        pairs = [
            (wrappers.NumpyToTorch(paddock.make("Pendulum-v1")), his.NumpyToTorch(gymnasium.make("Pendulum-v1"))),
            (vector.NumpyToTorch(paddock.make_vec("CartPole-v1", 3, backend="loop")),
             his.vector.NumpyToTorch(gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="sync"))),
        ]
        for (mine, his), action in zip(pairs, (torch.tensor([0.5]), torch.tensor([0, 1, 1]))):
            if told(list(mine.reset(seed=4))) != told(list(his.reset(seed=4))):
                wrong.append("reset")
            for _ in range(30):
                if told(list(mine.step(action))) != told(list(his.step(action))):
                    wrong.append("step")
        print(json.dumps(wrong))
        """
    )
    assert answer == []


@pytest.mark.peers
@pytest.mark.full
def test_namespaces_are_those_of_array_api_compat():
    answer = with_libraries(
        """
        warnings.simplefilter("ignore")
        import array_api_compat
        from gymnasium.wrappers.array_conversion import module_namespace as theirs
        from paddock.gym.wrappers.array_conversion import module_name_to_namespace
        from paddock.wrappers.arrays import module_namespace
        same = [
            module_namespace(xp) is theirs(xp) is array_api_compat.array_namespace(xp.zeros(1))
            and module_name_to_namespace(xp.__name__) is module_namespace(theirs(xp)) is theirs(xp)
            for xp in (torch, jnp)
        ]
        # Torch's own result_type takes no third argument.
        kind = module_namespace(torch).result_type(torch.int8, torch.float32, torch.float64)
        print(json.dumps([same, str(kind)]))
        """
    )
    assert answer == [[True, True], "torch.float64"]


@pytest.mark.peers
@pytest.mark.full
def test_names_and_signatures_of_the_conversion_modules_are_gymnasiums():
    answer = with_libraries(
        """
        import importlib
        from tests.gym import surface
        checked = []
        for stem in ("array_conversion", "jax_to_numpy", "jax_to_torch", "numpy_to_torch"):
            for path in (f"wrappers.{stem}", f"wrappers.vector.{stem}"):
                for name in sorted(surface.public_names(importlib.import_module(f"gymnasium.{path}"))):
                    if "_to_" in name and name != "module_name_to_namespace":  # a partial there, a function here
                        assert callable(getattr(importlib.import_module(f"paddock.gym.{path}"), name)), name
                    else:
                        surface.check_name(path, name)
                    checked.append(f"{path}.{name}")
        print(json.dumps(checked))
        """
    )
    assert len(answer) >= 12, answer


@pytest.mark.peers
@pytest.mark.full
def test_specs_of_conversions_go_through_json_with_their_device():
    answer = with_libraries(
        """
        torch_env = wrappers.NumpyToTorch(paddock.make("CartPole-v1"), torch.device("cpu"))
        both = wrappers.ArrayConversion(paddock.make("CartPole-v1"), np, jnp, target_device=jax.devices()[0])
        seen = []
        for env in (torch_env, both):
            again = paddock.make(paddock.EnvSpec.from_json(env.spec.to_json()))
            assert again.spec == env.spec
            seen.append([again.spec.additional_wrappers[-1].kwargs, type(again.reset(seed=1)[0]).__name__])
        print(json.dumps(seen))
        """
    )
    arguments = {"env_xp": "numpy", "target_xp": "jax.numpy", "env_device": None, "target_device": "cpu:0"}
    assert answer == [[{"device": "cpu"}, "Tensor"], [arguments, "ArrayImpl"]]
