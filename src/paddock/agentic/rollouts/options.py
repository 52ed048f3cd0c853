"""The options of rollouts: how far they may go, and how often they try again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TextIO

from paddock.agentic.rollouts.results import Where
from paddock.core.env import Env
from paddock.core.problem import kind
from paddock.errors import BudgetExceeded, PaddockError, PlanError
from paddock.record.model_call import ModelCall

_LONGEST_WAIT_S = 60.0


class Spending:
    """What was used so far. ``money`` is known for calls of a ModelEndpoint with ``prices``."""

    def __init__(self) -> None:
        self.calls = self.tokens = 0
        self.money = 0.0
        self.began_s = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began_s

    def add(self, call: ModelCall) -> None:
        self.calls += 1
        self.tokens += call.prompt_tokens + call.completion_tokens
        self.money += call.cost


@dataclass(frozen=True)
class Budget:
    """The most that one rollout, or a run, may use; None for no limit. It is checked before each turn of the policy."""

    tokens: int | None = None
    money: float | None = None
    calls: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "money", "calls", "seconds"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and value > 0):
                raise PlanError(f"Budget({name}={value!r}): expected a number above 0, or None.")

    def is_used_up(self, spending: Spending) -> bool:
        return self._first(spending) is not None

    def check(self, spending: Spending) -> None:
        """Raise BudgetExceeded if it is used up."""
        if (name := self._first(spending)) is not None:
            raise BudgetExceeded(f"The run's budget of {getattr(self, name):,} {name} is used up.")

    def _first(self, spending: Spending) -> str | None:
        if self.calls is not None and spending.calls >= self.calls:
            return "calls"
        if self.tokens is not None and spending.tokens >= self.tokens:
            return "tokens"
        if self.money is not None and spending.money >= self.money:
            return "money"
        return "seconds" if self.seconds is not None and spending.seconds >= self.seconds else None


RetryOn = Collection[str] | Callable[[BaseException], bool] | None


@dataclass(frozen=True)
class Retry:
    """``most`` further tries, with a wait that doubles from ``backoff_s``, or as long as the endpoint asks for.

    ``on``: codes of errors, or a function of one; None for those that another try may help.
    """

    most: int = 0
    on: RetryOn = None
    backoff_s: float = 0.5

    def __post_init__(self) -> None:
        if type(self.most) is not int or self.most < 0:
            raise PlanError(f"retries={self.most!r}: expected a count of 0 or more.")
        if isinstance(self.on, str) or not (self.on is None or callable(self.on) or isinstance(self.on, Collection)):
            raise PlanError(f"retry_on={self.on!r:.80}: expected a list of codes, or a function of an error.")

    def wait_s(self, error: BaseException, tries: int, code: str, where: Where) -> float | None:
        """Seconds until the next try; None if there is none."""
        if tries >= self.most or not self._helps(error, code, where):
            return None
        asked = getattr(error, "retry_after_s", None)
        headers = getattr(getattr(error, "response", None), "headers", None)  # of openai's errors
        if asked is None and headers is not None:
            with suppress(TypeError, ValueError):
                asked = max(0.0, float(headers.get("retry-after")))
        return float(asked) if asked is not None else min(_LONGEST_WAIT_S, self.backoff_s * 2.0**tries)

    def _helps(self, error: BaseException, code: str, where: Where) -> bool:
        if callable(self.on):
            return bool(self.on(error))
        if self.on is not None:
            return code in self.on
        if isinstance(error, PaddockError):
            return error.retryable or where in ("making", "reset", "step", "time")
        status = getattr(error, "status_code", None)  # of openai's errors, and of other clients'
        return not (isinstance(status, int) and 400 <= status < 500 and status not in (408, 409, 425, 429))


def code_of(error: BaseException, where: Where) -> str:
    """The code that a rollout keeps of an error."""
    if isinstance(error, PaddockError):
        return error.code
    return "POLICY_ERROR" if where == "policy" else "ENV_ERROR"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of ``rollout``, ``arollout`` and ``stream``.

    ``concurrency``: how many rollouts at once; 64, or 16 where each environment is a process. ``attempts``: how often
    each task is played.
    ``timeout_s``: for one rollout; past it, the rollout is an error and its environment is abandoned and replaced.
    ``max_turns``: how often the policy may act in one rollout; None for no limit, so that a policy that repeats a
    mistake goes on until ``timeout_s``. ``trace``: where to record all steps and calls of models, as JSON lines.
    ``resume``: go on with that trace: what finished is not played again.
    ``retries``: how often the policy is asked again in a turn that failed, and a rollout begun again whose environment
    failed; ``retry_on``: codes of errors, or a function of one, that decides which; ``backoff_s``: the first wait.
    ``cut_off``: "fail" if a reply that reached its limit of tokens is an error, "grade" to go on with what is there.
    ``budget``: of one rollout, which ends like one whose turns ran out. ``run_budget``: of all; then no more begin.
    ``progress``: a bar on stderr, or on another stream; a line every 10 seconds if that is not a terminal.
    ``make_env`` replaces ``paddock.make``. ``backend="ray"``: each environment is in an actor of a Ray cluster; the
    policy stays here.
    """

    concurrency: int | None = None
    attempts: int = 1
    timeout_s: float | None = 600.0
    max_turns: int | None = None
    seed: int = 0
    trace: str | os.PathLike[str] | None = None
    resume: bool = False
    retries: int = 0
    retry_on: RetryOn = None
    backoff_s: float = 0.5
    cut_off: Literal["fail", "grade"] = "fail"
    budget: Budget = field(default_factory=Budget)
    run_budget: Budget = field(default_factory=Budget)
    progress: bool | TextIO = True
    make_env: Callable[[Any], Env[Any, Any]] | None = None
    backend: Literal["auto", "ray"] = "auto"

    def __post_init__(self) -> None:
        timeout_s = self.timeout_s
        if timeout_s is not None and not (isinstance(timeout_s, (int, float)) and 0 < timeout_s < float("inf")):
            raise PlanError(f"timeout_s={timeout_s!r}: expected a positive number of seconds, or None.")
        for name in ("concurrency", "attempts", "max_turns"):
            count = getattr(self, name)
            if not (count is None and name != "attempts") and (type(count) is not int or count < 1):
                raise PlanError(f"{name}={count!r}: expected a count of 1 or more.")
        if self.backend not in ("auto", "ray"):
            raise PlanError(f"backend={self.backend!r}: expected 'auto' or 'ray'.")
        if self.backend == "ray" and self.make_env is not None:
            raise PlanError("make_env= makes environments itself, so backend='ray' can't place them. Drop one of them.")
        if self.resume and self.trace is None:
            raise PlanError("resume=True: name the trace to go on with, as trace='run.jsonl'.")
        for name in ("budget", "run_budget"):
            if not isinstance(getattr(self, name), Budget):
                raise PlanError(
                    f"{name}= is {kind(getattr(self, name))}; expected a Budget, as Budget(tokens=100_000)."
                )
        if self.cut_off not in ("fail", "grade"):
            raise PlanError(f"cut_off={self.cut_off!r}: expected 'fail' or 'grade'.")
        self.retry  # noqa: B018  # what is wrong with it is said now

    @cached_property
    def retry(self) -> Retry:
        """When a failure is tried again."""
        return Retry(self.retries, self.retry_on, self.backoff_s)
