"""Rates of step, render and construction, per second. Each runs a little past its duration: it ends what it began."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.core.vector_env import AutoresetMode, VectorEnv


def benchmark_step(env: Env[Any, Any], target_duration: int = 5, seed: int | None = None) -> float:
    """Steps per second with random actions, resets included."""
    env.action_space.seed(seed)
    env.reset(seed=seed)

    def step() -> int:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
        return 1

    return _rate(step, target_duration)


def benchmark_vector_step(env: VectorEnv[Any, Any, Any], target_duration: int = 5, seed: int | None = None) -> float:
    """Steps of single lanes per second with random actions; a lane that only starts an episode has not stepped."""
    env.action_space.seed(seed)
    env.reset(seed=seed)
    env.step(env.action_space.sample())  # what is made or compiled on first use is made before the clock starts
    env.reset(seed=seed)
    mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    ended = np.zeros(env.num_envs, dtype=np.bool_)

    def step() -> int:
        nonlocal ended
        idle = int(np.count_nonzero(ended)) if mode == AutoresetMode.NEXT_STEP else 0
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        ended = np.logical_or(terminated, truncated)
        if mode == AutoresetMode.DISABLED and ended.any():
            env.reset(options={"reset_mask": ended})
        return env.num_envs - idle

    return _rate(step, target_duration)


def benchmark_init(env_lambda: Callable[[], Env[Any, Any]], target_duration: int = 5, seed: int | None = None) -> float:
    """Constructions with a first reset per second; each environment is closed again."""

    def init() -> int:
        env = env_lambda()
        env.reset(seed=seed)
        env.close()
        return 1

    return _rate(init, target_duration)


def benchmark_render(env: Env[Any, Any], target_duration: int = 5) -> float:
    """Frames per second; meaningless with ``render_mode="human"``, which waits."""

    def render() -> int:
        env.render()
        return 1

    return _rate(render, target_duration)


def _rate(run: Callable[[], int], target_duration: float) -> float:
    done = 0
    start = time.time()  # not perf_counter: programs set this clock to choose what is measured
    while True:
        done += run()
        elapsed = time.time() - start
        if elapsed > target_duration:
            return done / elapsed
