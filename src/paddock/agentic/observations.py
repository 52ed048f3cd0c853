"""What comes back to the agent, and the same as its grader sees it: with the task, its answers and the outcome."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from paddock.agentic.content import Image, Message, Text
from paddock.agentic.task import Task

# OpenEnv's names for them.
ErrorType: TypeAlias = Literal["execution_error", "invalid_args", "transport_error", "tool_not_found", "timeout"]


class ToolError(msgspec.Struct, frozen=True):
    """Why a tool gave no result, in words for the model."""

    error_type: ErrorType
    message: str


class ToolInfo(msgspec.Struct, frozen=True):
    """A tool as its callers see it; ``input_schema`` is a JSON Schema of an object."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None


class Observation(msgspec.Struct, kw_only=True):
    """``content`` is for the model to read. ``messages`` begin a conversation: a reset has them, most steps do not.

    After a tool call ``tool_name`` says which, and one of ``result`` (what the tool returned, as plain data) and
    ``error`` is there; ``content`` has either in words. ``tools`` answers ListTools, and a reset.
    """

    content: list[Text | Image] = []
    messages: list[Message] = []
    tool_name: str | None = None
    result: Any = None
    error: ToolError | None = None
    tools: list[ToolInfo] | None = None


class GradedObservation(Observation, kw_only=True):
    """What a rubric gets. It never leaves the worker that holds the environment: ``task`` has the hidden answers.

    ``info`` is what the environment tells of this step, and is kept in traces: what a rubric finds in it can be scored
    again later.
    """

    task: Task
    done: bool = False
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = {}

    @staticmethod
    def of(
        seen: Observation, *, task: Task, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> GradedObservation:
        """What the agent saw, with what its grader sees besides."""
        return GradedObservation(
            **{name: getattr(seen, name) for name in Observation.__struct_fields__},
            task=task,
            done=terminated or truncated,
            terminated=terminated,
            truncated=truncated,
            info=info,
        )


# Whole before anyone can use it: where a second thread meets a class of classes that msgspec (0.22) is still preparing,
# the process crashes.
msgspec.msgpack.Decoder(Observation)
