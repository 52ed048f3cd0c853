"""Translator: OpenEnv's requests as those of the seam, and its replies as OpenEnv's data. One for each session.

Environments written for OpenEnv judge an action themselves (their classes are kinder than a schema can say), so their
data goes through as it is; all others get a value of their space. Those with tools have OpenEnv's forms for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from paddock.errors import InvalidAction, InvalidSeed, table
from paddock.hosting import messages as m
from paddock.hosting.openenv import gym_form, tool_form
from paddock.hosting.openenv.about import told
from paddock.hosting.openenv.field_errors import entries_of, entry
from paddock.hosting.openenv.frames import Form, error_frame, observation_data, observation_frame, state_frame
from paddock.hosting.openenv.requests import (
    EXECUTION_ERROR,
    SESSION_ERROR,
    ResetRequest,
    StateRequest,
    StepRequest,
    WireError,
    invalid,
)
from paddock.spaces import Space

Asked: TypeAlias = "ResetRequest | StepRequest | StateRequest"

_FATAL = frozenset(code for _, code, _, alive in table() if not alive)


class Translator:
    """For one environment, number ``env`` of its Host. ``form``: which OpenEnv the bytes shall be those of."""

    def __init__(
        self,
        action_space: Space[Any] | None,
        observation_space: Space[Any] | None,
        metadata: Mapping[str, Any],
        *,
        form: Form = "0.10",
        env: int = 0,
        tools: tool_form.Tools | None = None,
    ) -> None:
        self.form: Form = form
        self._actions, self._observations, self._env = action_space, observation_space, env
        self._typed = told(metadata) is not None
        self._tools = None if self._typed else tools

    def known(self, asked: Asked) -> dict[str, Any] | WireError | None:
        """The answer to what no Host needs to be asked: which tools there are. None for all the rest."""
        if self._tools is None or not isinstance(asked, StepRequest) or not tool_form.is_listing(asked.data):
            return None
        problem = tool_form.action_of(asked.data)
        return problem if isinstance(problem, WireError) else tool_form.listing_data(self._tools, self.form)

    def request(self, asked: Asked) -> m.Request | WireError:
        """What to ask the Host."""
        if isinstance(asked, StateRequest):
            return m.State(self._env)
        if isinstance(asked, StepRequest):
            action = asked.data if self._typed else self._action(asked.data)
            return action if isinstance(action, WireError) else m.Step([self._env], [action])
        if self._typed:
            return m.Reset(self._env, None, asked.data or None)
        arguments = gym_form.reset_arguments(asked.data)
        return arguments if isinstance(arguments, WireError) else m.Reset(self._env, *arguments)

    def _action(self, data: dict[str, Any]) -> Any:
        found = None if self._tools is None else tool_form.action_of(data)
        return gym_form.action_of(self._actions, data) if found is None else found

    def data(self, asked: Asked, reply: m.Reply) -> dict[str, Any] | WireError:
        """The reply as the data of a frame, or of an HTTP body."""
        value = reply.value if isinstance(reply, m.Done) else reply
        if isinstance(asked, StepRequest) and isinstance(value, list):
            value = value[0]
        if isinstance(value, m.Failed):
            return self._failure(asked, value)
        if isinstance(asked, StateRequest):
            return self._state(*value)
        if isinstance(asked, ResetRequest):
            return self._outcome(value[0], value[1])
        observation, reward, terminated, truncated, info = value
        return self._outcome(observation, info, reward=reward, terminated=terminated, truncated=truncated)

    def frame(self, asked: Asked, reply: m.Reply) -> str:
        """The reply as a message on ``/ws``."""
        return self.framed(asked, self.data(asked, reply))

    def framed(self, asked: Asked, data: dict[str, Any] | WireError) -> str:
        """Data of either kind as a message on ``/ws``."""
        if isinstance(data, WireError):
            return error_frame(data)
        return state_frame(data) if isinstance(asked, StateRequest) else observation_frame(data)

    def _outcome(self, observation: Any, info: Any, **result: Any) -> dict[str, Any]:
        if self._typed and isinstance(observation, dict):
            return observation_data(observation, self.form)
        seen = None if self._tools is None else tool_form.Seen.of(observation)
        if self._tools is not None and seen is not None:
            return tool_form.outcome_data(self._tools, seen, info, **result, form=self.form)
        return gym_form.outcome_data(self._observations, observation, info, **result, form=self.form)

    def _state(self, episode_id: str | None, step_count: int | None, public: Any) -> dict[str, Any]:
        if self._typed and isinstance(public, dict):
            return public
        return gym_form.state_data(episode_id, step_count, public)

    def _failure(self, asked: Asked, failed: m.Failed) -> WireError:
        if failed.code == InvalidAction.code and isinstance(asked, StepRequest):
            return invalid(entries_of(failed.message, asked.data))
        if failed.code == InvalidSeed.code and isinstance(asked, ResetRequest):
            return invalid([entry("value_error", ("data", "seed"), asked.data.get("seed"), failed.message)])
        if failed.code in _FATAL:
            return WireError(SESSION_ERROR, failed.message, closes=True)
        return WireError(EXECUTION_ERROR, failed.message, cause=failed.code)
