"""ReplyReader: what HostedEnv lets in of a reply. The one here believes its peer; ``wall.Wall`` believes nothing."""

from __future__ import annotations

from typing import Any, Protocol

from paddock.core.env import Info
from paddock.errors import PaddockError
from paddock.hosting.failure import to_error
from paddock.hosting.messages import Failed

StepResult = tuple[Any, Any, Any, Any, Info]


class ReplyReader(Protocol):
    """Reads the values of replies. ``ends``: errors after which the far end is not to be used any more."""

    ends: tuple[type[PaddockError], ...]

    def failure(self, reply: Failed) -> PaddockError:
        """The error to raise for a failure."""

    def reset(self, value: Any) -> tuple[Any, Info]:
        """Observation and info."""

    def step(self, value: Any) -> StepResult:
        """The five results of the one environment that was stepped; its failure is raised."""

    def state(self, value: Any) -> tuple[Any, Any, Any]:
        """Episode, steps, and what the environment shows."""

    def render(self, value: Any, mode: str | None) -> Any:
        """A picture, or text."""

    def snapshot(self, value: Any) -> bytes:
        """Bytes."""

    def value(self, value: Any, name: str) -> Any:
        """What the attribute is, or returned."""

    def found(self, value: Any) -> str:
        """Empty, "value" or "callable"."""


class Unwalled:
    """For a worker that runs the caller's own code."""

    ends: tuple[type[PaddockError], ...] = ()

    def failure(self, reply: Failed) -> PaddockError:
        return to_error(reply)

    def reset(self, value: Any) -> tuple[Any, Info]:
        observation, info = value
        return observation, info

    def step(self, value: Any) -> StepResult:
        (result,) = value
        if isinstance(result, Failed):
            raise to_error(result)
        observation, reward, terminated, truncated, info = result
        return observation, reward, terminated, truncated, info

    def state(self, value: Any) -> tuple[Any, Any, Any]:
        episode_id, step_count, public = value
        return episode_id, step_count, public

    def render(self, value: Any, mode: str | None) -> Any:
        return value

    def snapshot(self, value: Any) -> bytes:
        return value  # type: ignore[no-any-return]

    def value(self, value: Any, name: str) -> Any:
        return value

    def found(self, value: Any) -> str:
        return value  # type: ignore[no-any-return]


UNWALLED = Unwalled()
