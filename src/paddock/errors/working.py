"""Errors of environments that language models work in.

A tool that can't do what it was asked for is none of them: that is told to the model, in the observation.
"""

from __future__ import annotations

from paddock.errors.root import PaddockError


class InvalidTool(PaddockError, TypeError):
    """A tool, or a class of tools, that can't be offered as it is written. Raised where the class is defined."""

    code = "INVALID_TOOL"


class InvalidTask(PaddockError, ValueError):
    """A split or an index that the environment has no task for, or a row that is no task."""

    code = "INVALID_TASK"


class ToolFailed(PaddockError):
    """Raised by a tool: its text is for the model, as the tool's error. The episode goes on."""

    code = "TOOL_FAILED"


class EpisodeFailed(PaddockError):
    """The episode can't go on, for no fault of the agent's: it has no reward, not even zero. ``reset`` begins anew."""

    code = "EPISODE_FAILED"


class GradingFailed(EpisodeFailed):
    """A rubric raised, took too long or gave no finite score; ``rubric`` is its dotted name, empty for the root."""

    code = "GRADING_FAILED"

    def __init__(self, message: str, *, rubric: str = "") -> None:
        super().__init__(message)
        self.rubric = rubric


class InvalidRubric(PaddockError, ValueError, TypeError, KeyError):
    """A rubric that can't be built so, a part of it that does not exist, or a state that is not its."""

    code = "INVALID_RUBRIC"
    __str__ = Exception.__str__  # KeyError's own would put the text in quotes


class InvalidTrace(PaddockError, ValueError):
    """A trace that can't be read, or a value that can't stand in one; the text names the line or the value."""

    code = "INVALID_TRACE"
