"""Environments for language models: a class with tools, tasks and a rubric. Such an environment is an ordinary Env.

::

    env.py                 ToolEnv: reset, step, begin, listen, award, finish
    tools.py signature.py docstring.py     @tool, and what its types and docstring say
    calls.py helper_thread.py              one call of a tool, run with a limit
    actions.py observations.py content.py  what passes between an agent and its environment
    task.py tasks.py                       work, in splits; OpenEnv's Task API
    about.py opening.py                    metadata; how a conversation begins
    rubrics/               grading, out of modules
    chat_form.py           all of it as chat-completions APIs have it
    rollouts/ rescoring.py many episodes at once; what came of them; old ones scored anew
    envs/                  the environments that come with paddock
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Action": "paddock.agentic.actions",
    "CallTool": "paddock.agentic.actions",
    "ListTools": "paddock.agentic.actions",
    "Say": "paddock.agentic.actions",
    "Image": "paddock.agentic.content",
    "Message": "paddock.agentic.content",
    "Text": "paddock.agentic.content",
    "ToolEnv": "paddock.agentic.env",
    "GradedObservation": "paddock.agentic.observations",
    "Observation": "paddock.agentic.observations",
    "ToolError": "paddock.agentic.observations",
    "ToolInfo": "paddock.agentic.observations",
    "Task": "paddock.agentic.task",
    "Tasks": "paddock.agentic.tasks",
    "tool": "paddock.agentic.tools",
    "ToolFailed": "paddock.errors",
    "EpisodeFailed": "paddock.errors",
    "Rollout": "paddock.agentic.rollouts",
    "Rollouts": "paddock.agentic.rollouts",
    "Turn": "paddock.agentic.rollouts",
    "rollout": "paddock.agentic.rollouts",
}
_RUBRICS = (
    "Rubric",
    "Sequential",
    "Gate",
    "WeightedSum",
    "RubricList",
    "RubricDict",
    "TrajectoryRubric",
    "ExponentialDiscountingTrajectoryRubric",
    "LLMJudge",
    "Timeout",
)
_HOMES.update(dict.fromkeys(_RUBRICS, "paddock.agentic.rubrics"))

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'paddock.agentic' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:  # for type checkers and editors, which do not run __getattr__
    from paddock.agentic.actions import Action as Action
    from paddock.agentic.actions import CallTool as CallTool
    from paddock.agentic.actions import ListTools as ListTools
    from paddock.agentic.actions import Say as Say
    from paddock.agentic.content import Image as Image
    from paddock.agentic.content import Message as Message
    from paddock.agentic.content import Text as Text
    from paddock.agentic.env import ToolEnv as ToolEnv
    from paddock.agentic.observations import GradedObservation as GradedObservation
    from paddock.agentic.observations import Observation as Observation
    from paddock.agentic.observations import ToolError as ToolError
    from paddock.agentic.observations import ToolInfo as ToolInfo
    from paddock.agentic.rollouts import Rollout as Rollout
    from paddock.agentic.rollouts import Rollouts as Rollouts
    from paddock.agentic.rollouts import Turn as Turn
    from paddock.agentic.rollouts import rollout as rollout
    from paddock.agentic.task import Task as Task
    from paddock.agentic.tasks import Tasks as Tasks
    from paddock.agentic.tools import tool as tool
    from paddock.errors import EpisodeFailed as EpisodeFailed
    from paddock.errors import ToolFailed as ToolFailed
