"""Environments in OpenEnv's names, for its package or ours: a copy with the right names is what runs."""

import asyncio
from typing import Any

from openenv.core.env_server.interfaces import Environment, Transform
from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, Field


class Say(Action):
    text: str = Field(min_length=1)
    times: int = Field(default=1, ge=1, le=9)


class Inner(BaseModel):
    tags: list[str] = []


class Heard(Observation):
    text: str = ""
    inner: Inner | None = None


class Count(State):
    letters: int = 0


class Echo(Environment[Say, Heard, Count]):
    """Says it again."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, transform=None, rubric=None):
        super().__init__(transform, rubric)
        self._state = Count(episode_id="none")

    def reset(self, seed=None, episode_id=None, **kwargs: Any) -> Heard:
        self._reset_rubric()
        self._state = Count(episode_id=episode_id or "made")
        return Heard(text=f"{seed} {sorted(kwargs.items())}", reward=0.0)

    def step(self, action: Say, timeout_s=None, **kwargs: Any) -> Heard:
        if action.text == "crash":
            raise ValueError("it broke")
        self._state.step_count += 1
        self._state.letters += len(action.text)
        rewards = {
            "true": True,
            "one": 1,
            "none": None,
            "nan": float("nan"),
            "rubric": self._apply_rubric(action, None),
        }
        return self._apply_transform(
            Heard(
                text=action.text * action.times,
                inner=Inner(tags=["a"]) if action.text == "nested" else None,
                reward=rewards.get(action.text, 0.5),
                done=action.text == "end",
                metadata={"timeout_s": timeout_s, **kwargs} if action.text == "meta" else {},
            )
        )

    @property
    def state(self) -> Count:
        return self._state


class Alone(Echo):
    SUPPORTS_CONCURRENT_SESSIONS = False


class Plain(Echo):
    def reset(self) -> Heard:
        return Heard(text="plain")


class Later(Echo):
    async def step_async(self, action, timeout_s=None, **kwargs):
        await asyncio.sleep(0)
        return Heard(text="later " + action.text)


class Tasks(Echo):
    def list_splits(self):
        return ["train", "odd", {"name": "x", "type": "test"}]

    def list_tasks(self, split):
        return [{"id": f"{split}-{index}"} for index in range(3)]

    def num_tasks(self, split):
        return 3

    def get_task(self, split, index):
        return self.list_tasks(split)[index]

    def get_task_range(self, split, start=None, stop=None):
        return self.list_tasks(split)[start:stop]


class Shout(Transform):
    def __call__(self, observation):
        return observation.model_copy(update={"text": observation.text.upper()})


class Twice(Transform):
    def __call__(self, observation):
        return observation.model_copy(update={"text": observation.text + observation.text + "!"})
