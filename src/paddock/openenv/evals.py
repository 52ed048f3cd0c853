"""OpenEnv's evaluations: a configuration, a harness that runs it, and the scores.

Inspect AI is imported by the run that needs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any

from paddock.openenv.types import BaseModel, ConfigDict


class EvalConfig(BaseModel):
    """What to evaluate, and with which versions, so that another can do it again."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    harness_name: str
    harness_version: str
    library_versions: dict[str, str]
    dataset: str
    eval_parameters: dict[str, Any]


class EvalResult(BaseModel):
    """The scores, with what led to them."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    config: EvalConfig
    scores: dict[str, Any]


class EvalHarness(ABC):
    """Runs evaluations. Write ``run``."""

    @abstractmethod
    def run(
        self,
        harness_version: str,
        library_versions: dict[str, str],
        dataset: str,
        eval_parameters: dict[str, Any],
    ) -> dict[str, Any]:
        """Return the scores by name."""

    def run_from_config(self, config: EvalConfig) -> EvalResult:
        arguments = {name: value for name, value in vars(config).items() if name != "harness_name"}
        return EvalResult(config=config, scores=self.run(**arguments))

    @property
    def name(self) -> str:
        return type(self).__name__


# Parameters that go on to inspect_ai.eval: the first two unless empty, the others unless None.
_DICTS = ("task_args", "model_args")
_OPTIONAL = (
    "max_samples",
    "max_connections",
    "temperature",
    "max_tokens",
    "epochs",
    "solver",
    "scorer",
    "model_base_url",
)


class InspectAIHarness(EvalHarness):
    """Runs a task of Inspect AI. ``eval_parameters`` needs ``model``; ``task`` is the dataset unless it is there."""

    def __init__(self, *, log_dir: str | None = None) -> None:
        self.log_dir = log_dir

    def run(
        self,
        harness_version: str,
        library_versions: dict[str, str],
        dataset: str,
        eval_parameters: dict[str, Any],
    ) -> dict[str, Any]:
        try:
            evaluate = import_module("inspect_ai").eval
        except ImportError as error:
            raise ImportError("inspect-ai is required for InspectAIHarness: pip install 'inspect-ai>=0.3.0'") from error
        model = eval_parameters.get("model")
        if model is None:
            raise ValueError("eval_parameters must include 'model', for example 'openai/gpt-4o'.")
        options = {name: eval_parameters[name] for name in _DICTS if eval_parameters.get(name)}
        options |= {name: eval_parameters[name] for name in _OPTIONAL if eval_parameters.get(name) is not None}
        if self.log_dir is not None:
            options["log_dir"] = self.log_dir
        logs = evaluate(eval_parameters.get("task", dataset), model=model, **options)
        if not logs:
            raise RuntimeError("Inspect AI evaluation returned no logs. Check the task and the model.")
        if logs[0].status != "success":
            raise RuntimeError(f"Inspect AI evaluation failed with status: {logs[0].status}")
        results = logs[0].results
        scores = () if results is None else results.scores
        return {name: metric.value for score in scores for name, metric in score.metrics.items()}
