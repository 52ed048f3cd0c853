"""Hostile wrappers. A spec names them by their path, so they run wherever the environment does."""

from __future__ import annotations

import os
import time
from typing import Any

from paddock.bench.hostile.attacks.attempt import Hostile, tried
from paddock.bench.hostile.attacks.files import text_of
from paddock.core.env import Env, Info
from paddock.core.wrapper import Wrapper


class Harmless(Hostile):
    """What they are put around."""

    def attempt(self) -> str:
        return ""


class HostileWrapper(Wrapper[Any, Any, Any, Any]):
    """Passes all through, and tries ``attempt`` in every step."""

    def __init__(self, env: Env[Any, Any], **told: Any) -> None:
        super().__init__(env)
        self.told = told

    def attempt(self) -> str:
        """The attack."""
        raise NotImplementedError

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        observation, reward, terminated, truncated, _ = self.env.step(action)
        return observation, reward, terminated, truncated, tried(self.attempt)


class ReadFile(HostileWrapper):
    """Reads ``path``."""

    def attempt(self) -> str:
        return text_of(self.told["path"])


class Shell(HostileWrapper):
    """Runs a shell that leaves a file."""

    def attempt(self) -> str:
        if os.system(f"echo hostile > {self.told['marker']}"):  # noqa: S605
            raise PermissionError("the shell did not run")
        return "the shell ran"


class RaiseReward(HostileWrapper):
    """Makes every reward but the first infinite."""

    steps = 0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        self.steps += 1
        observation, _, terminated, truncated, info = self.env.step(action)
        return observation, float("inf") if self.steps > 1 else 0.0, terminated, truncated, info


class HoldUp(HostileWrapper):
    """Takes ``seconds`` to close."""

    def attempt(self) -> str:
        return "waits for close"

    def close(self) -> None:
        time.sleep(self.told["seconds"])
