"""Train with Lightning: a DataLoader that collects from lanes with your policy, for its Trainer and for Fabric."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from paddock.adapters import need
from paddock.adapters.trainers import Target
from paddock.core.vector_env import AutoresetMode
from paddock.making import LaneOptions, make_vec


def loader(
    target: Target,
    num_envs: int,
    policy: Callable[[Any], Any],
    *,
    steps: int = 128,
    batches: int | None = None,
    seed: int | None = 0,
    **make_kwargs: Any,
) -> Any:
    """Return a DataLoader of batches that are collected while you train: dicts of tensors [steps, num_envs, …].

    ``policy(observations)`` gets a tensor with a row for each lane and returns the actions, or (actions, dict of other
    tensors to keep, such as log probabilities). It runs without gradients. ``batches``: how many make an epoch; None
    for no end. Each process of a distributed training has lanes and seeds of its own.

    A batch has observations, actions, rewards, terminations, truncations, ``next_observations`` (the true last one
    where an episode ended), ``episode_returns`` (of the episodes that ended in it) and what the policy added.
    """
    need("lightning")
    from torch.utils.data import DataLoader, IterableDataset

    class Collected(_Collector, IterableDataset):  # type: ignore[misc]  # Torch takes no other for a stream
        pass

    make = partial(make_vec, target, num_envs, lanes=LaneOptions(autoreset=AutoresetMode.SAME_STEP), **make_kwargs)
    # In this process: the policy is here.
    return DataLoader(Collected(make, policy, steps, batches, seed), batch_size=None)


class _Collector:
    """Lanes that go on from batch to batch, and from epoch to epoch."""

    def __init__(
        self, make: Callable[[], Any], policy: Callable[[Any], Any], steps: int, batches: int | None, seed: int | None
    ) -> None:
        self._make, self._policy, self._steps, self._batches, self._seed = make, policy, steps, batches, seed
        self._lanes: Any = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        import torch

        if self._lanes is None:
            rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
            self._lanes = self._make()
            count = self._lanes.num_envs
            self._now, _ = self._lanes.reset(seed=None if self._seed is None else self._seed + rank * count)
            self._returns = np.zeros(count)
        done = 0
        while self._batches is None or done < self._batches:
            with torch.no_grad():
                batch = self._collect()
            yield batch
            done += 1

    def _collect(self) -> dict[str, Any]:
        import torch

        rows: list[dict[str, Any]] = []
        ended: list[float] = []
        for _ in range(self._steps):
            observations = torch.as_tensor(np.asarray(self._now))
            answer = self._policy(observations)
            actions, more = answer if isinstance(answer, tuple) else (answer, {})
            actions = torch.as_tensor(actions).detach().cpu()
            self._now, rewards, terminations, truncations, infos = self._lanes.step(actions.numpy())
            following = np.array(self._now)
            self._returns += rewards
            for lane in np.flatnonzero(terminations | truncations):
                following[lane] = infos["final_obs"][lane]
                ended.append(float(self._returns[lane]))
                self._returns[lane] = 0.0
            row = {
                "observations": observations,
                "actions": actions,
                "rewards": torch.as_tensor(rewards, dtype=torch.float32),
                "terminations": torch.as_tensor(terminations),
                "truncations": torch.as_tensor(truncations),
                "next_observations": torch.as_tensor(following),
            }
            rows.append({**row, **{name: value.detach().cpu() for name, value in more.items()}})
        batch: dict[str, Any] = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
        return {**batch, "episode_returns": torch.tensor(ended)}
