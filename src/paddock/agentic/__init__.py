"""Environments for language models: a class with tools, tasks and a rubric. Such an environment is an ordinary Env.

::

    env.py             ToolEnv: reset, step, begin, listen, award, finish
    tools.py           @tool, what its types and docstring say, and one call of it
    tasks.py           work, in splits; OpenEnv's Task API
    messages.py        what passes between an agent and its environment
    endpoint.py        a model behind an OpenAI-compatible API, as a policy
    chat.py            the same in the form of chat-completions APIs
    rubrics/           grading, by rubrics made of rubrics
    rollouts/          many episodes at once, and their results
    mcp.py             tools of external MCP servers
    snapshots.py       an episode as bytes, for forks
    rescoring.py       recorded episodes scored again
    threads.py         run tools, rubrics and environments that may block
    envs/              the environments that come with paddock
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_NAMES = {
    "paddock.agentic.messages": "Action CallTool Image ListTools Message Observation Say Text ToolError ToolInfo",
    "paddock.agentic.endpoint": "ModelEndpoint",
    "paddock.agentic.env": "ToolEnv",
    "paddock.agentic.mcp": "Mcp",
    "paddock.agentic.tasks": "Task Tasks",
    "paddock.agentic.tools": "tool",
    "paddock.agentic.rubrics.rubric": "GradedObservation",
    "paddock.agentic.rollouts": "Budget Group Rollout Rollouts Sample Turn arollout rollout stream",
    "paddock.agentic.rubrics": "ExponentialDiscountingTrajectoryRubric Gate LLMJudge Rubric RubricDict RubricList "
    "Sequential Timeout TrajectoryRubric WeightedSum",
    "paddock.record.model_call": "ModelCall",
    "paddock.errors": "EpisodeFailed ToolFailed",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'paddock.agentic' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:  # for type checkers and editors, which do not run __getattr__
    from paddock.agentic.endpoint import ModelEndpoint as ModelEndpoint
    from paddock.agentic.env import ToolEnv as ToolEnv
    from paddock.agentic.mcp import Mcp as Mcp
    from paddock.agentic.messages import Action as Action
    from paddock.agentic.messages import CallTool as CallTool
    from paddock.agentic.messages import Image as Image
    from paddock.agentic.messages import ListTools as ListTools
    from paddock.agentic.messages import Message as Message
    from paddock.agentic.messages import Observation as Observation
    from paddock.agentic.messages import Say as Say
    from paddock.agentic.messages import Text as Text
    from paddock.agentic.messages import ToolError as ToolError
    from paddock.agentic.messages import ToolInfo as ToolInfo
    from paddock.agentic.rollouts import Budget as Budget
    from paddock.agentic.rollouts import Group as Group
    from paddock.agentic.rollouts import Rollout as Rollout
    from paddock.agentic.rollouts import Rollouts as Rollouts
    from paddock.agentic.rollouts import Sample as Sample
    from paddock.agentic.rollouts import Turn as Turn
    from paddock.agentic.rollouts import arollout as arollout
    from paddock.agentic.rollouts import rollout as rollout
    from paddock.agentic.rollouts import stream as stream
    from paddock.agentic.rubrics.rubric import GradedObservation as GradedObservation
    from paddock.agentic.tasks import Task as Task
    from paddock.agentic.tasks import Tasks as Tasks
    from paddock.agentic.tools import tool as tool
    from paddock.errors import EpisodeFailed as EpisodeFailed
    from paddock.errors import ToolFailed as ToolFailed
    from paddock.record.model_call import ModelCall as ModelCall
