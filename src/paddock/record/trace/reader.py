"""Read a trace that anyone may have written. Episodes come as they end; those that broke off come last.

A last line without its newline is what a crash leaves behind: it is skipped, and ``torn`` says so. Any other flaw is an
InvalidTrace: someone changed the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from msgspec import UNSET

from paddock.core.spec import EnvSpec
from paddock.errors import InvalidSpace, InvalidSpec, InvalidTrace, NoCanonicalForm
from paddock.record.digest import known_digests
from paddock.record.model_call import ModelCall
from paddock.record.trace.lines import (
    FORMAT,
    LIMITS,
    CallLine,
    EndLine,
    EpisodeError,
    Header,
    Limits,
    Line,
    ResetLine,
    RolloutLine,
    Seal,
    StepLine,
    from_text,
    pieces,
)
from paddock.record.trace.values import ArraySource, arrays_path, member, unfold
from paddock.spaces import Space

if TYPE_CHECKING:
    import os


@dataclass(frozen=True)
class Forms:
    """Action and observation as they stand in the trace, arrays included: what a replay compares."""

    observation: Any
    action: Any = None


@dataclass(frozen=True)
class Step:
    """One action, and what ``step`` returned."""

    action: Any
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    forms: Forms = field(repr=False)


@dataclass(frozen=True)
class RolloutEnd:
    """What was known of a rollout at its end: its conversation, and ``where`` it failed if it did."""

    messages: list[Any]
    turns: int
    retries: int
    seconds: float
    where: str | None


@dataclass(frozen=True)
class Episode:
    """An episode of a trace. Observations and actions are members of the recorded spaces.

    The class of a recorded Struct is not known here: its members are dicts with the same fields. ``number``: unique in
    the file. ``observation`` and ``info`` are those of the reset, None where that failed. ``env`` names the environment
    as the recorder did, ``digest`` is that of its spec, ``isolation`` the tier that it ran in. ``ended`` is False if
    the recording broke off. ``error`` says why there is no return. ``calls`` are those of a model, ``rollout`` what was
    known at the end, if that was recorded.
    """

    number: int
    env: str | None
    spec: EnvSpec | None
    digest: str | None
    seed: int | None
    options: dict[str, Any] | None
    task: Any
    about: dict[str, Any]
    observation_space: Space[Any] | None
    action_space: Space[Any] | None
    observation: Any
    info: dict[str, Any] | None
    steps: Sequence[Step]
    ended: bool
    error: EpisodeError | None
    forms: Forms | None = field(repr=False)
    calls: Sequence[ModelCall] = ()
    rollout: RolloutEnd | None = None
    isolation: str | None = None

    @property
    def total_return(self) -> float | None:
        """The sum of the rewards; None if an error ended the episode or the recording broke off."""
        if self.error is not None or not self.ended:
            return None
        return sum((step.reward for step in self.steps), 0.0)


_PIECE_BYTES = 64  # about what a bracket or comma comes to in memory
_REFERENCE_BYTES = 8  # a message that a call repeats: a few bytes of a line must not become a gigabyte
_NAME_LIMIT = 1000


class TraceReader:
    """The episodes of the trace at ``path``. Each iteration reads the file again, and sets two attributes:

    ``torn``: how the last line broke off. ``sealed``: whether the file ends with a seal, so that no episode is missing.
    """

    def __init__(self, path: str | os.PathLike[str], *, limits: Limits = LIMITS) -> None:
        self.path, self._limits = Path(path), limits
        self.torn: str | None = None
        self.sealed = False

    def __iter__(self) -> Iterator[Episode]:
        self.torn, self.sealed = None, False
        arrays = ArraySource(arrays_path(self.path), self._limits)
        try:
            with self.path.open("rb") as file:
                yield from self._episodes(file, arrays)
        finally:
            arrays.close()

    def _episodes(self, file: IO[bytes], arrays: ArraySource) -> Iterator[Episode]:
        open_episodes = _OpenEpisodes(arrays, self._limits)
        number = 0
        while text := file.readline(self._limits.line_bytes + 1):
            number += 1
            if not text.endswith(b"\n"):
                if len(text) > self._limits.line_bytes:
                    raise self._flaw(number, f"longer than {self._limits.line_bytes} bytes")
                self.torn = f"line {number} has no end: the recording broke off in it"
                break
            try:
                done = open_episodes.read_line(text)
            except (ValueError, InvalidSpace, InvalidSpec) as error:
                raise self._flaw(number, str(error)) from None
            except RecursionError:
                raise self._flaw(number, "nested too deeply") from None
            if done is not None:
                yield done
        self.sealed = open_episodes.sealed
        yield from open_episodes.unfinished_episodes()

    def _flaw(self, line: int, what: str) -> InvalidTrace:
        return InvalidTrace(f"{self.path}: line {line}: {what.rstrip('.')}.")


@dataclass
class _Open:
    """An episode that has begun and not ended."""

    header: Header
    spec: EnvSpec | None
    spaces: tuple[Space[Any] | None, Space[Any] | None]
    values: dict[str, Any]
    first: tuple[Any, Any, Forms] | None = None
    steps: list[Step] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    rollout: RolloutEnd | None = None
    cost: int = 0

    def messages(self, line: CallLine | RolloutLine) -> list[Any]:
        """The messages of a line, with those that are as in the call before."""
        before = self.calls[-1].messages if self.calls else []
        if not 0 <= line.kept <= len(before):
            raise ValueError(f"a line of episode {line.episode} keeps {line.kept} messages of {len(before)}")
        return [*before[: line.kept], *line.messages]

    def call(self, line: CallLine) -> ModelCall:
        before = self.calls[-1].request if self.calls else {}
        if missing := set(line.same) - before.keys():
            raise ValueError(f"a call of episode {line.episode} has no {min(missing)!r:.60} to repeat")
        request = {**{name: before[name] for name in line.same}, **line.request, "messages": self.messages(line)}
        error = None if line.error is None else (line.error.code, line.error.message)
        return ModelCall(request, line.reply, error, line.began_s, line.seconds, line.turn, line.retry, line.cost)

    def episode(self, end: EndLine | None) -> Episode:
        observation, info, forms = self.first or (None, None, None)
        header = self.header
        return Episode(
            number=header.episode,
            env=header.env,
            spec=self.spec,
            digest=header.digest,
            seed=header.seed,
            **self.values,
            observation_space=self.spaces[0],
            action_space=self.spaces[1],
            observation=observation,
            info=info,
            steps=tuple(self.steps),
            ended=end is not None,
            error=None if end is None else end.error,
            forms=forms,
            calls=tuple(self.calls),
            rollout=self.rollout,
            isolation=header.isolation or None,
        )


class _OpenEpisodes:
    """The episodes that have begun and not ended, line by line. Any flaw is a ValueError."""

    def __init__(self, arrays: ArraySource, limits: Limits) -> None:
        self._arrays, self._limits = arrays, limits
        self._open: dict[int, _Open] = {}
        self._numbers: set[int] = set()
        self._spaces: dict[int, tuple[Space[Any] | None, Space[Any] | None]] = {}
        self._held = 0
        self._hash = hashlib.sha256()
        self._chained = False
        self.sealed = False

    def read_line(self, text: bytes) -> Episode | None:
        """Read a line; returns the episode that it ends, if it ends one."""
        line = from_text(text, self._limits)
        if self.sealed:
            raise ValueError("a line after the seal, which is the last one")
        if isinstance(line, Seal):
            if line.episodes != len(self._numbers):
                raise ValueError(f"the seal is over {line.episodes} episodes, and {len(self._numbers)} are here")
            if line.sha256 != self._hash.hexdigest():
                raise ValueError("the seal is over other lines than these: some were changed, moved or left out")
            self.sealed = True
            return None
        before = self._arrays.bytes_read
        opened = self._begin(line) if isinstance(line, Header) else self._continue(line)
        if isinstance(line, EndLine):
            self._check_chain(line)
        self._hash.update(text)
        cost = len(text) + _PIECE_BYTES * pieces(text) + self._arrays.bytes_read - before
        self._held += cost
        if not isinstance(line, Header) or not isinstance(line.spaces, dict):  # spaces stay for later episodes
            opened.cost += cost
        if isinstance(line, EndLine):
            self._held -= self._open.pop(line.episode).cost
            return opened.episode(line)
        if self._held > self._limits.held_bytes:
            raise ValueError(f"the episodes that have not ended take more than {self._limits.held_bytes} bytes")
        return None

    def unfinished_episodes(self) -> Iterator[Episode]:
        """The episodes whose recording broke off."""
        for opened in self._open.values():
            yield opened.episode(None)

    def _begin(self, line: Header) -> _Open:
        if line.format != FORMAT:
            raise ValueError(f"the format {line.format!r:.60}; this paddock reads {FORMAT}")
        if line.episode in self._numbers or line.episode < 0:
            raise ValueError(f"a second header of episode {line.episode}")
        if len(self._numbers) >= self._limits.episodes:
            raise ValueError(f"more than {self._limits.episodes} episodes")
        if max(len(line.env or ""), len(line.digest or ""), len(line.isolation or "")) > _NAME_LIMIT:
            raise ValueError(
                f"the name, the digest or the isolation of an environment has more than {_NAME_LIMIT} characters"
            )
        spec = None if line.spec is None else EnvSpec.from_json(json.dumps(line.spec))
        if spec is not None and line.digest is not None:
            try:
                known = known_digests(spec)
            except NoCanonicalForm as error:
                raise ValueError(f"a digest of a spec that has none: {error}") from None
            if line.digest not in known:
                raise ValueError(f"the digest {line.digest!r:.70} is not that of the spec, which is {known[0]}")
        values = {name: self._unfold(getattr(line, name)) for name in ("options", "task", "about")}
        if any(values[name] is not None and not isinstance(values[name], dict) for name in ("options", "about")):
            raise ValueError("options and about are objects")
        values["about"] = values["about"] or {}
        opened = _Open(line, spec, self._spaces_of(line), values)
        self._numbers.add(line.episode)
        self._open[line.episode] = opened
        return opened

    def _spaces_of(self, line: Header) -> tuple[Space[Any] | None, Space[Any] | None]:
        if line.spaces is None:
            return None, None
        if isinstance(line.spaces, int):
            if line.spaces not in self._spaces:
                raise ValueError(f"the spaces of episode {line.spaces}, whose header has none")
            return self._spaces[line.spaces]
        if line.spaces.keys() != {"observation", "action"}:
            raise ValueError("spaces are those of observation and action")
        read = [Space.from_json(json.dumps(line.spaces[name])) for name in ("observation", "action")]
        self._spaces[line.episode] = (read[0], read[1])
        return read[0], read[1]

    def _continue(self, line: Line) -> _Open:
        opened = self._open.get(line.episode)
        if opened is None:
            what = "after its end" if line.episode in self._numbers else "without a header"
            raise ValueError(f"a line of episode {line.episode} {what}")
        if isinstance(line, (CallLine, RolloutLine)):
            opened.cost += _REFERENCE_BYTES * line.kept
            self._held += _REFERENCE_BYTES * line.kept
        if isinstance(line, ResetLine):
            if opened.first is not None:
                raise ValueError(f"a second reset in episode {line.episode}")
            form = self._unfold(line.observation)
            opened.first = member(opened.spaces[0], form), self._info(line.info), Forms(form)
        elif isinstance(line, StepLine):
            opened.steps.append(self._step(opened, line))
        elif isinstance(line, CallLine):
            opened.calls.append(opened.call(line))
        elif isinstance(line, RolloutLine):
            opened.rollout = RolloutEnd(opened.messages(line), line.turns, line.retries, line.seconds, line.where)
        elif isinstance(line, EndLine):
            self._check_total(opened, line)
        return opened

    def _step(self, opened: _Open, line: StepLine) -> Step:
        if opened.first is None:
            raise ValueError(f"a step of episode {line.episode} before its reset")
        if opened.steps and (opened.steps[-1].terminated or opened.steps[-1].truncated):
            raise ValueError(f"a step of episode {line.episode} after its last one")
        forms = Forms(action=self._unfold(line.action), observation=self._unfold(line.observation))
        reward = self._unfold(line.reward)
        if type(reward) not in (int, float):
            raise ValueError(f"the reward {reward!r:.60} is not a number")
        return Step(
            action=member(opened.spaces[1], forms.action),
            observation=member(opened.spaces[0], forms.observation),
            reward=float(reward),
            terminated=line.terminated,
            truncated=line.truncated,
            info=self._info(line.info),
            forms=forms,
        )

    def _info(self, data: Any) -> dict[str, Any]:
        info = self._unfold(data)
        if not isinstance(info, dict):
            raise ValueError("an info is an object")
        return info

    def _unfold(self, data: Any) -> Any:
        return unfold(data, self._arrays.fetch)

    def _check_chain(self, line: EndLine) -> None:
        """Traces begin without a chain, where an older paddock wrote them, and never go on without one."""
        if line.chain is UNSET:
            if self._chained:
                raise ValueError(f"the end of episode {line.episode} has no chain, and those before have one")
        elif line.chain != self._hash.hexdigest():
            raise ValueError(
                f"the end of episode {line.episode} was written after other lines than these: "
                f"some were changed, moved or left out"
            )
        self._chained = line.chain is not UNSET

    def _check_total(self, opened: _Open, line: EndLine) -> None:
        """What an end claims is what the steps gave: a program may read the end alone."""
        total = self._unfold(line.total)
        if line.error is not None:
            if total is not None:
                raise ValueError(f"episode {line.episode} has an error and a return")
            return
        summed = sum((step.reward for step in opened.steps), 0.0)
        if type(total) not in (int, float) or (total != summed and (total == total or summed == summed)):
            raise ValueError(f"the return {total!r:.60} of episode {line.episode}, whose rewards sum to {summed}")
