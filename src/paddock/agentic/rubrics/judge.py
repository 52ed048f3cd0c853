"""LLMJudge: a language model gives the score. paddock brings no client: any callable from a prompt to a text is one.

Its scores are not replayable. What the agent wrote stands in the prompt, so it can try to talk to the judge.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Awaitable, Callable
from inspect import isawaitable, iscoroutinefunction
from string import Formatter
from typing import Any

from paddock.agentic.rubrics.rubric import Rubric
from paddock.agentic.rubrics.score import NoScore, finite
from paddock.agentic.rubrics.setting import number
from paddock.agentic.rubrics.side_call import side_call
from paddock.core.problem import kind
from paddock.errors import InvalidRubric

FIRST_NUMBER = r"(\d+(?:\.\d*)?)"
_PLACES = ("action", "observation")


class LLMJudge(Rubric):
    """Asks ``client`` with the template filled in, and takes the first number of the reply, cut to [0, 1].

    ``client`` is a function, sync or async, or an object with such a ``complete``. ``score_pattern`` finds the score
    instead: its first group, or all of it. A reply without a score counts as ``default_score``; with None it fails the
    grading, which is better than training on a guess.
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
        self._ask = _asking(client)
        self.score_pattern = FIRST_NUMBER if score_pattern is None else score_pattern
        self.default_score = default_score
        self.normalize = bool(normalize)

    @property
    def prompt_template(self) -> str:
        """Text with ``{action}`` and ``{observation}``, as ``str.format`` has it: ``{action.text}``, ``{{`` for {."""
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
        """The regular expression that finds the score in a reply."""
        return self._score_pattern.pattern

    @score_pattern.setter
    def score_pattern(self, pattern: str) -> None:
        try:
            self._score_pattern = re.compile(pattern)
        except (re.error, TypeError) as error:
            raise InvalidRubric(f"score_pattern: {error}: {pattern!r}.") from None

    @property
    def default_score(self) -> float | None:
        """The score of a reply without one; None: there is none."""
        return self._default_score

    @default_score.setter
    def default_score(self, value: float | None) -> None:
        self._default_score = None if value is None else number("default_score", value)

    async def forward(self, action: Any, observation: Any) -> float:
        """Ask, and read the reply."""
        reply = await self._ask(self._render_prompt(action, observation))
        if not isinstance(reply, str):
            raise NoScore(f"its client returned {kind(reply)}; expected the model's text")
        return self._parse_score(reply)

    def _render_prompt(self, action: Any, observation: Any) -> str:
        """The prompt; a subclass may build it otherwise."""
        return self.prompt_template.format(action=action, observation=observation)

    def _parse_score(self, response: str) -> float:
        """The score in the reply; a subclass may read it otherwise."""
        found = self._score_pattern.search(response)
        try:
            score = finite(float(found.group(1) if found.lastindex else found.group(0))) if found else None
        except (ValueError, TypeError):  # no number, or the group took no part in the match
            score = None
        if score is None:
            score = self.default_score
            if score is None:
                raise NoScore("its judge's reply has no score")
            return score
        return max(0.0, min(1.0, score)) if self.normalize else score

    def __deepcopy__(self, memo: dict[int, Any]) -> LLMJudge:
        """A copy with the same client, which may hold connections."""
        memo[id(self._client)] = self._client
        made: LLMJudge = type(self).__new__(type(self))
        memo[id(self)] = made
        vars(made).update({name: copy.deepcopy(value, memo) for name, value in vars(self).items()})
        return made


def _asking(client: Any) -> Callable[[str], Awaitable[Any]]:
    """The client as an async function. A sync one gets a thread, so that judges can wait at the same time."""
    call = getattr(client, "complete", client)
    if not callable(call):
        raise InvalidRubric(
            f"client: {type(client).__name__} can't be called and has no 'complete'. Pass a function: prompt to text."
        )
    waits = iscoroutinefunction(call) or iscoroutinefunction(call.__call__)

    async def ask(prompt: str) -> Any:
        reply = call(prompt) if waits else await side_call(lambda: call(prompt))
        return await reply if isawaitable(reply) else reply

    return ask
