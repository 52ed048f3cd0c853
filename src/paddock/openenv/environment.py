"""OpenEnv's Environment and Transform. Nothing here checks the order of calls or the type of what is returned.

A rubric is anything that can be called with an action and an observation; its ``reset``, if any, goes with the episode.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypedDict, TypeVar

from paddock.openenv.types import Action, EnvironmentMetadata, Observation, State

ActT = TypeVar("ActT", bound=Action)
ObsT = TypeVar("ObsT", bound=Observation)
StateT = TypeVar("StateT", bound=State)


class Message(TypedDict):
    """One message of a conversation."""

    role: str
    content: str


class ModelTokenizer(Protocol):
    """What an environment over tokens needs of a tokenizer."""

    def apply_chat_template(
        self, conversation: list[Message], tokenize: bool = True, return_tensors: str | None = None, **kwargs: Any
    ) -> Any:
        """The conversation as one text or its tokens."""
        ...

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str:
        """Tokens as text."""
        ...


class TaskProvider(Protocol):
    """What an environment with tasks has; it need not inherit from this. A task is chosen by reset's arguments."""

    def list_splits(self) -> list[Any]:
        """Names of splits, or dicts with a name and a type."""
        ...

    def list_tasks(self, split: str) -> list[Any]:
        """The tasks of a split."""
        ...

    def num_tasks(self, split: str) -> int:
        """How many there are."""
        ...

    def get_task(self, split: str, index: int) -> Any:
        """One of them; IndexError if there is none."""
        ...

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[Any]:
        """Some of them, as a slice."""
        ...


class Transform(ABC, Generic[ObsT]):
    """Changes an observation before it is returned: adds a reward, say."""

    @abstractmethod
    def __call__(self, observation: ObsT) -> ObsT:
        """The observation to return, the same object or another."""


class CompositeTransform(Transform[ObsT]):
    """Several, in this order."""

    def __init__(self, transforms: list[Transform[ObsT]]) -> None:
        self.transforms = transforms

    def __call__(self, observation: ObsT) -> ObsT:
        for transform in self.transforms:
            observation = transform(observation)
        return observation


class NullTransform(Transform[ObsT]):
    """Changes nothing."""

    def __call__(self, observation: ObsT) -> ObsT:
        return observation


class Environment(ABC, Generic[ActT, ObsT, StateT]):
    """An environment in OpenEnv's form: subclasses write reset, step and the property state.

    ``SUPPORTS_CONCURRENT_SESSIONS`` says that several at once share nothing. Under paddock each session has a process
    of its own, so it only matters for what lies outside of that.

    >>> class Count(Environment[Action, Observation, State]):
    ...     def reset(self, seed=None, episode_id=None, **kwargs):
    ...         self.steps = 0
    ...         return Observation()
    ...     def step(self, action, timeout_s=None, **kwargs):
    ...         self.steps += 1
    ...         return Observation(reward=1.0, done=self.steps == 3)
    ...     @property
    ...     def state(self):
    ...         return State(step_count=self.steps)
    >>> env = Count()
    >>> _ = env.reset()
    >>> env.step(Action()).reward, env.state.step_count
    (1.0, 1)
    """

    SUPPORTS_CONCURRENT_SESSIONS: bool = False
    REQUIRES_SINGLE_THREAD_EXECUTOR: bool = False

    rubric: Callable[[ActT, ObsT], Any] | None

    def __init__(
        self, transform: Transform[ObsT] | None = None, rubric: Callable[[ActT, ObsT], Any] | None = None
    ) -> None:
        self.transform, self.rubric = transform, rubric

    @abstractmethod
    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> ObsT:
        """Begin an episode."""

    @abstractmethod
    def step(self, action: ActT, timeout_s: float | None = None, **kwargs: Any) -> ObsT:
        """Advance by one action."""

    @property
    @abstractmethod
    def state(self) -> StateT:
        """Where the episode is."""

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> ObsT:
        """As reset; a class that overrides it is served by this one."""
        return self.reset(seed=seed, episode_id=episode_id, **kwargs)

    async def step_async(self, action: ActT, timeout_s: float | None = None, **kwargs: Any) -> ObsT:
        """As step; a class that overrides it is served by this one."""
        return self.step(action, timeout_s=timeout_s, **kwargs)

    def get_metadata(self) -> EnvironmentMetadata:
        """What ``/metadata`` says."""
        name = type(self).__name__
        return EnvironmentMetadata(name=name, description=f"{name} environment", version="1.0.0")

    def close(self) -> None:
        """Free what the environment holds."""

    def _apply_transform(self, observation: ObsT) -> ObsT:
        return observation if self.transform is None else self.transform(observation)

    def _apply_rubric(self, action: ActT, observation: ObsT) -> float:
        return 0.0 if self.rubric is None else self.rubric(action, observation)

    async def _apply_rubric_async(self, action: ActT, observation: ObsT) -> float:
        score: Any = self._apply_rubric(action, observation)
        return await score if inspect.isawaitable(score) else score  # type: ignore[no-any-return]

    def _reset_rubric(self) -> None:
        reset = getattr(self.rubric, "reset", None)
        if reset is not None:
            reset()

    async def _reset_rubric_async(self) -> None:
        reset = getattr(self.rubric, "reset_async", None) or getattr(self.rubric, "reset", None)
        done = None if reset is None else reset()
        if inspect.isawaitable(done):
            await done
