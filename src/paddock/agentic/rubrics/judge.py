"""LLMJudge: a language model gives the score. Bring your own client: any function from a prompt to a text will do.

Its scores are not replayable. The prompt contains what the agent wrote, so the agent can try to talk to the judge.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import re
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from inspect import isawaitable, iscoroutinefunction
from string import Formatter
from typing import Any, TypeVar

from paddock.agentic.rubrics.rubric import NoScore, Rubric, check_number, to_score
from paddock.core.problem import kind
from paddock.errors import InvalidRubric

FIRST_NUMBER = r"(\d+(?:\.\d*)?)"
_PLACES = ("action", "observation")


class LLMJudge(Rubric):
    """Asks ``client`` with the template filled in, and takes the first number of the reply, clipped to [0, 1].

    ``client`` is a function, sync or async, or an object with a method ``complete``. With ``score_pattern``, the score
    is the first group of that pattern, or all of its match. A reply without a score counts as ``default_score``; with
    None it fails the grading, which is better than training on a guess.
    """

    replayable = False
    state_fields = ("prompt_template", "score_pattern", "default_score", "normalize")

    def __init__(
        self,
        prompt_template: str,
        client: Any,
        *,
        score_pattern: str | None = None,
        default_score: float | None = 0.0,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        self.prompt_template = prompt_template
        self._client = client
        self._ask = _to_async(client)
        self.score_pattern = FIRST_NUMBER if score_pattern is None else score_pattern
        self.default_score = default_score
        self.normalize = bool(normalize)

    @property
    def prompt_template(self) -> str:
        """Text with ``{action}`` and ``{observation}``, as for ``str.format``: ``{action.text}``, ``{{`` for {."""
        return self._prompt_template

    @prompt_template.setter
    def prompt_template(self, template: str) -> None:
        try:
            fields = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
        except (ValueError, TypeError) as error:
            raise InvalidRubric(f"prompt_template: {error}. Write {{{{ and }}}} for braces.") from None
        for name in (re.split(r"[.\[]", field, maxsplit=1)[0] for field in fields):
            if name not in _PLACES:
                known = "{action} and {observation}"
                raise InvalidRubric(f"prompt_template: there is no {name!r}, only {known}. Write {{{{ for a brace.")
        self._prompt_template = template

    @property
    def score_pattern(self) -> str:
        return self._score_pattern.pattern

    @score_pattern.setter
    def score_pattern(self, pattern: str) -> None:
        try:
            self._score_pattern = re.compile(pattern)
        except (re.error, TypeError) as error:
            raise InvalidRubric(f"score_pattern: {error}: {pattern!r}.") from None

    @property
    def default_score(self) -> float | None:
        """The score of a reply without one; None to fail the grading."""
        return self._default_score

    @default_score.setter
    def default_score(self, value: float | None) -> None:
        self._default_score = None if value is None else check_number("default_score", value)

    async def forward(self, action: Any, observation: Any) -> float:
        reply = await self._ask(self._render_prompt(action, observation))
        if not isinstance(reply, str):
            raise NoScore(f"its client returned {kind(reply)}; expected the model's text")
        return self._parse_score(reply)

    def _render_prompt(self, action: Any, observation: Any) -> str:
        """Build the prompt; a subclass may override this."""
        return self.prompt_template.format(action=action, observation=observation)

    def _parse_score(self, response: str) -> float:
        """Read the score from the reply; a subclass may override this."""
        found = self._score_pattern.search(response)
        try:
            score = to_score(float(found.group(1) if found.lastindex else found.group(0))) if found else None
        except (ValueError, TypeError):  # not a number, or the group took no part in the match
            score = None
        if score is None:
            score = self.default_score
            if score is None:
                raise NoScore("its judge's reply has no score")
            return score
        return max(0.0, min(1.0, score)) if self.normalize else score

    def __deepcopy__(self, memo: dict[int, Any]) -> LLMJudge:
        """Copy the judge with the same client, which may hold connections."""
        memo[id(self._client)] = self._client
        judge: LLMJudge = type(self).__new__(type(self))
        memo[id(self)] = judge
        vars(judge).update({name: copy.deepcopy(value, memo) for name, value in vars(self).items()})
        return judge


def _to_async(client: Any) -> Callable[[str], Awaitable[Any]]:
    """Turn the client into an async function. A sync one gets a thread, so that judges can wait at the same time."""
    call = getattr(client, "complete", client)
    if not callable(call):
        raise InvalidRubric(
            f"client: {type(client).__name__} can't be called and has no 'complete'. Pass a function: prompt to text."
        )
    is_async = iscoroutinefunction(call) or iscoroutinefunction(call.__call__)

    async def ask(prompt: str) -> Any:
        reply = call(prompt) if is_async else await _run_in_thread(lambda: call(prompt))
        return await reply if isawaitable(reply) else reply

    return ask


T = TypeVar("T")


async def _run_in_thread(function: Callable[[], T]) -> T:
    """Run sync code without blocking the loop, on a daemon thread of its own. If the caller is cancelled, it goes on.

    Not ``asyncio.to_thread``: at its end the interpreter waits for those threads, even if they hang.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(function)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="paddock-judge", daemon=True).start()
    return await asyncio.wrap_future(future)
