"""Train with Lightning: a DataLoader that collects from lanes with your policy, for its Trainer and for Fabric."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    class Collected(IterableDataset):  # type: ignore[type-arg, misc]
        """Lanes that go on from batch to batch, and from epoch to epoch."""

        def __init__(self) -> None:
            self._lanes: Any = None

        def __iter__(self) -> Iterator[dict[str, Any]]:
            if self._lanes is None:
                rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
                lanes = LaneOptions(autoreset=AutoresetMode.SAME_STEP)
                self._lanes = make_vec(target, num_envs, lanes=lanes, **make_kwargs)
                first = None if seed is None else seed + rank * num_envs
                self._now, _ = self._lanes.reset(seed=first)
                self._returns = np.zeros(num_envs)
            count = 0
            while batches is None or count < batches:
                yield self._collect()
                count += 1

        @torch.no_grad()  # type: ignore[untyped-decorator]
        def _collect(self) -> dict[str, Any]:
            rows: dict[str, list[Any]] = {}
            ended: list[float] = []
            for _ in range(steps):
                observations = torch.as_tensor(np.asarray(self._now))
                answer = policy(observations)
                actions, more = answer if isinstance(answer, tuple) else (answer, {})
                told = self._lanes.step(np.asarray(actions.detach().cpu()) if torch.is_tensor(actions) else actions)
                self._now, rewards, terminations, truncations, infos = told
                true = np.array(self._now)
                self._returns += rewards
                for lane in np.flatnonzero(terminations | truncations):
                    true[lane] = infos["final_obs"][lane]
                    ended.append(float(self._returns[lane]))
                    self._returns[lane] = 0.0
                row = {
                    "observations": observations,
                    "actions": torch.as_tensor(np.asarray(actions.cpu() if torch.is_tensor(actions) else actions)),
                    "rewards": torch.as_tensor(rewards, dtype=torch.float32),
                    "terminations": torch.as_tensor(terminations),
                    "truncations": torch.as_tensor(truncations),
                    "next_observations": torch.as_tensor(true),
                    **{name: value.detach().cpu() for name, value in more.items()},
                }
                for name, value in row.items():
                    rows.setdefault(name, []).append(value)
            batch: dict[str, Any] = {name: torch.stack(values) for name, values in rows.items()}
            return {**batch, "episode_returns": torch.tensor(ended)}

        def close(self) -> None:
            if self._lanes is not None:
                self._lanes.close()

    return DataLoader(Collected(), batch_size=None)  # in this process: the policy is here
