"""Environments written for OpenEnv, by import lines alone: of the real package, or of ours."""

import asyncio
import importlib
import os
import time
from importlib.util import find_spec
from typing import Any

_OURS = "paddock.openenv.core.env_server"
API = os.environ.get("OPENENV_API") or ("openenv.core.env_server" if find_spec("openenv") else _OURS)
_api = importlib.import_module(API)
Environment = importlib.import_module(f"{API}.interfaces").Environment
_types = importlib.import_module(f"{API}.types")
Action, Observation, State = _types.Action, _types.Observation, _types.State
create_app = getattr(_api, "create_app", None)

from pydantic import Field, field_validator  # noqa: E402


class EchoAction(Action):
    text: str
    times: int = Field(default=1, ge=1, le=9)

    @field_validator("text")
    @classmethod
    def polite(cls, value: str) -> str:
        if value == "rude":
            raise ValueError("be polite")
        return value


class EchoObservation(Observation):
    echoed: str = ""
    length: int = 0
    anything: Any = None


class EchoState(State):
    total: int = 0


SPECIAL = {"nan": float("nan"), "inf": float("inf"), "big": 1e16, "tiny": 1e-7, "huge": 2**70, "é☃": 'é☃\x00\n"\\/'}


class EchoEnv(Environment[EchoAction, EchoObservation, EchoState]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = EchoState(episode_id="e0", step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> EchoObservation:
        self._state = EchoState(episode_id=episode_id or "e1", step_count=0)
        return EchoObservation(echoed="ready", reward=0.0, anything={"seed": seed, **kwargs})

    def step(self, action: EchoAction, timeout_s: float | None = None, **kwargs: Any) -> EchoObservation:
        self._state.step_count += 1
        self._state.total += len(action.text)
        text = action.text * action.times
        if text == "crash":
            raise RuntimeError("it broke")
        if text.startswith("slow"):
            time.sleep(float(text[4:]))
        metadata = {"loud": True} if text.isupper() else {}
        rewards = {"one": 1, "true": True, "none": None, "nan": float("nan")}
        return EchoObservation(
            echoed=text,
            length=len(text),
            reward=rewards.get(text, len(text) / 2),
            done=text == "end",
            metadata=metadata,
            anything=SPECIAL if text == "special" else None,
        )

    @property
    def state(self) -> EchoState:
        return self._state


class Quiet(EchoEnv):
    """Takes no seed."""

    def reset(self) -> EchoObservation:
        return super().reset()


class Lonely(EchoEnv):
    """Allows one session."""

    SUPPORTS_CONCURRENT_SESSIONS = False


class SlowToBuild(Lonely):
    """Its constructor takes a while, and it shows frames of Atari's size."""

    def __init__(self) -> None:
        time.sleep(3.0)
        super().__init__()

    def step(self, action: EchoAction, timeout_s: float | None = None, **kwargs: Any) -> EchoObservation:
        return EchoObservation(echoed=action.text, anything=[number % 256 for number in range(210 * 160 * 3)])


class AsyncEcho(EchoEnv):
    """Only its async methods know what to do."""

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any):
        await asyncio.sleep(0)
        return EchoEnv.reset(self, seed, episode_id, **kwargs)

    async def step_async(self, action: EchoAction, timeout_s: float | None = None, **kwargs: Any):
        await asyncio.sleep(0)
        return EchoEnv.step(self, action)

    def reset(self, *args: Any, **kwargs: Any) -> EchoObservation:
        raise RuntimeError("the sync reset was called")

    def step(self, *args: Any, **kwargs: Any) -> EchoObservation:
        raise RuntimeError("the sync step was called")


class TaskEnv(EchoEnv):
    """Has tasks."""

    def list_splits(self) -> list[Any]:
        return ["train", "odd", {"name": "x", "type": "test"}]

    def list_tasks(self, split: str) -> list[Any]:
        return [{"id": f"{split}-{i}"} for i in range(3)]

    def num_tasks(self, split: str) -> int:
        return 3

    def get_task(self, split: str, index: int) -> Any:
        return self.list_tasks(split)[index]

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[Any]:
        return self.list_tasks(split)[start:stop]


def made() -> EchoEnv:
    return EchoEnv()


if API.startswith("openenv."):
    app = create_app(EchoEnv, EchoAction, EchoObservation, max_concurrent_envs=8)
    one_slot_app = create_app(SlowToBuild, EchoAction, EchoObservation)
