"""Environments of tensors; run by test_tensors.py in the venv of the peer ``sb3``, which has Torch."""

import numpy as np
import pytest
import torch

import paddock
from paddock import LaneOptions
from paddock.adapters import tensors
from paddock.errors import PlanError, WrongClass
from paddock.vector import SyncVectorEnv
from tests.adapters.trainer_pages import run_section
from tests.toys import Counter

torch.set_num_threads(1)
GPU = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU and a Torch that can use it; runs wherever there is one"
)


def both(device=None, **options):
    arrays = paddock.make_vec("CartPole-v1", 8, **options)
    return arrays, tensors.make("CartPole-v1", num_envs=8, device=device, **options)


@pytest.mark.parametrize("device", [None, "cpu", "cpu:0", torch.device("cpu"), pytest.param("cuda", marks=GPU)])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("copy", [True, False], ids=["copies", "buffers"])
def test_lanes_of_tensors_are_the_lanes_of_arrays(device, mode, copy, seed):
    arrays, tensed = both(device, lanes=LaneOptions(autoreset=mode, copy=copy))
    seen, _ = tensed.reset(seed=seed)
    assert seen.device.type == torch.device(device or "cpu").type
    assert seen.tolist() == arrays.reset(seed=seed)[0].tolist()
    torch.manual_seed(seed)
    ended = 0
    for _ in range(100):
        actions = torch.randint(0, 2, (8,), device=seen.device)
        expected, found = arrays.step(actions.cpu().numpy()), tensed.step(actions)
        assert [part.dtype for part in found[:4]] == [torch.float32, torch.float64, torch.bool, torch.bool]
        for array, tensor in zip(expected[:4], found[:4], strict=True):
            assert tensor.device.type == seen.device.type
            np.testing.assert_array_equal(tensor.cpu().numpy(), array)
        assert found[4].keys() == expected[4].keys()
        for lane in np.flatnonzero(expected[4].get("_final_obs", [])):
            assert found[4]["final_obs"][lane].tolist() == expected[4]["final_obs"][lane].tolist()
        ended += int(found[2].sum())
    assert ended > 10


def test_buffers_are_made_tensors_of_once_and_copies_are_the_caller_s():
    _, lent = both(lanes=LaneOptions(copy=False))
    lent.reset(seed=0)
    first = lent.step(torch.zeros(8, dtype=torch.int64))
    before = first[0].clone()
    second = lent.step(torch.zeros(8, dtype=torch.int64))
    assert all(one is other for one, other in zip(first[:4], second[:4], strict=True))
    assert not torch.equal(before, first[0])
    assert first[0].data_ptr() == lent.env.step(np.zeros(8, np.int64))[0].ctypes.data

    _, copied = both()
    copied.reset(seed=0)
    first = copied.step(torch.zeros(8, dtype=torch.int64))
    before = first[0].clone()
    assert copied.step(torch.zeros(8, dtype=torch.int64))[0] is not first[0]
    assert torch.equal(before, first[0])


def test_one_environment_of_tensors():
    env, twin = tensors.make("Pendulum-v1", device="cpu"), paddock.make("Pendulum-v1")
    seen, _ = env.reset(seed=3)
    assert seen.tolist() == twin.reset(seed=3)[0].tolist()
    seen, reward, terminated, truncated, _ = env.step(torch.tensor([0.5]))
    expected = twin.step(np.array([0.5], np.float32))
    assert seen.tolist() == expected[0].tolist()
    assert (reward, terminated, truncated) == (float(expected[1]), False, False)


def test_lanes_whose_observations_are_dicts():
    class Pair(Counter):
        def __init__(self):
            super().__init__()
            box = self.observation_space
            self.observation_space = paddock.spaces.Dict({"here": box, "there": box})

        def reset(self, *, seed=None, options=None):
            seen, info = super().reset(seed=seed)
            return {"here": seen, "there": -seen}, info

        def step(self, action):
            seen, *rest = super().step(action)
            return {"here": seen, "there": seen + 10}, *rest

    env = tensors.as_tensors(SyncVectorEnv([Pair] * 2, copy=False))
    env.reset()
    for count in (1.0, 2.0):
        seen = env.step(torch.ones(2, dtype=torch.int64))[0]
        assert seen["here"].tolist() == [[count]] * 2
        assert seen["there"].tolist() == [[count + 10]] * 2


def test_a_device_that_is_not_there_is_told_when_made():
    with pytest.raises(PlanError, match="device='nowhere'"):
        tensors.make("CartPole-v1", device="nowhere")
    with pytest.raises(PlanError, match="device='nowhere'"):
        tensors.make("CartPole-v1", num_envs=2, device="nowhere")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU; runs wherever there is none")
def test_a_gpu_that_is_not_there_is_told_when_made():
    with pytest.raises(PlanError, match="device='cuda'"):
        tensors.make("CartPole-v1", num_envs=2, device="cuda")


def test_what_is_no_environment_is_refused():
    with pytest.raises(WrongClass, match="got list"):
        tensors.as_tensors([])


def test_arrays_go_from_library_to_library():
    array = np.arange(4, dtype=np.float32)
    tensor = tensors.to_torch(array)
    tensor[0] = 7
    assert array[0] == 7
    assert np.shares_memory(tensors.to_numpy(tensor), array)
    nested = tensors.to_torch({"at": (array, 2)}, device="cpu")
    assert nested["at"][0].data_ptr() == tensor.data_ptr() and nested["at"][1] == torch.tensor(2)


def test_code_of_the_page_runs():
    run_section("Tensors")
