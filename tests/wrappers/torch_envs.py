"""Environments of tensors, for the tests that run where Torch is."""

import torch

import paddock


class TensorCounter(paddock.Env):
    """Counts its steps, in tensors, and takes tensors only; its spaces are NumPy's, as everywhere."""

    metadata = {"render_modes": [], "torch": True}
    observation_space = paddock.spaces.Box(0, 100, (1,))
    action_space = paddock.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return torch.zeros(1), {}

    def step(self, action):
        assert isinstance(action, torch.Tensor)
        self.count += 1
        ended = torch.tensor(self.count >= 20)
        return torch.full((1,), float(self.count)), torch.tensor(1.5), ended, torch.tensor(False), {"count": self.count}
