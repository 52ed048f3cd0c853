"""Write a trace, line by line. The system has the line when a call returns: a crash loses nothing before it.
A writer that is told to hold lines back hands them over together, when an episode has begun and whenever it is told to.

Episodes may be written side by side, from several threads: every line names its episode. ``Recorder`` is the wrapper
that writes all episodes of an environment.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat

import msgspec
import numpy as np

from paddock.core.env import Env, Info, isolation_of
from paddock.core.spec import EnvSpec, entry_point_text
from paddock.core.wrapper import Wrapper
from paddock.errors import CustomSpaceError, InvalidSpace, InvalidSpec, InvalidTrace, NoCanonicalForm, PaddockError
from paddock.record.digest import environment_digest
from paddock.record.model_call import ModelCall
from paddock.record.trace.lines import (
    FORMAT,
    LIMITS,
    MESSAGE_LIMIT,
    CallLine,
    EndLine,
    EpisodeError,
    Header,
    Line,
    ResetLine,
    RolloutLine,
    Seal,
    StepLine,
    to_text,
)
from paddock.record.trace.reader import Episode
from paddock.record.trace.values import ArrayFile, Keep, arrays_path, free_form, member_text, write_all
from paddock.spaces import Space, Struct
from paddock.spaces.conform import Nonconforming, conform

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from typing_extensions import Self

_BROKEN = "could not be written; everything before that is intact."


@dataclass(frozen=True)
class Opening:
    """What a trace says of an episode before it begins: which environment, seed, task and spaces.

    ``options`` and ``task`` are those of the reset; ``about`` is for your own notes. ``isolation`` is the tier that the
    environment's code runs in.
    """

    env: str | None
    spec: EnvSpec | None
    digest: str | None
    observation_space: Space[Any] | None
    action_space: Space[Any] | None
    seed: int | None
    options: Mapping[str, Any] | None = None
    task: Any = None
    about: Mapping[str, Any] | None = None
    isolation: str | None = None

    @staticmethod
    def of(env: Env[Any, Any], *, seed: int | None, name: str | None = None, **more: Any) -> Opening:
        """For an environment that is about to be reset; ``name`` in place of its spec's id."""
        spec, digest = env.spec, None
        if spec is not None:
            with suppress(NoCanonicalForm):  # a function among its arguments has no digest
                digest = environment_digest(spec)
        named = name or (entry_point_text(type(env.unwrapped)) if spec is None else spec.id)
        spaces = env.observation_space, env.action_space
        return Opening(named, spec, digest, *spaces, seed, isolation=isolation_of(env), **more)

    @staticmethod
    def like(episode: Episode, *, about: Mapping[str, Any]) -> Opening:
        """For an episode that was read, with other notes."""
        known = {field.name: getattr(episode, field.name) for field in fields(Opening)}
        return Opening(**{**known, "about": about})

    def spec_form(self) -> dict[str, Any] | None:
        """The spec as JSON data; None if it contains code, which no trace carries."""
        if self.spec is None:
            return None
        try:
            form: dict[str, Any] = json.loads(self.spec.to_json())
        except InvalidSpec:
            return None
        return form

    def spaces_form(self) -> dict[str, Any] | None:
        """The spaces as JSON data; None if one is of a custom class."""
        if self.observation_space is None or self.action_space is None:
            return None
        try:
            spaces = {"observation": self.observation_space, "action": self.action_space}
            return {name: json.loads(space.to_json()) for name, space in spaces.items()}
        except (CustomSpaceError, InvalidSpace):
            return None


class TraceWriter:
    """A new trace at ``path``, its arrays in ``path.arrays``. An existing file is an error unless ``overwrite``.

    ``append``: go on with a trace that is not sealed. What broke off in its last line is dropped.

    ``seal``: closing adds a last line with the number of episodes and a hash over all of them, so that a reader notices
    if one is left out. Older readers refuse that line.

    ``hold``: so many bytes of steps and ends wait for ``flush``, ``close`` or a new episode. A crash loses them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        append: bool = False,
        seal: bool = False,
        hold: int = 0,
    ) -> None:
        self.path, self._appends = Path(path), append
        self._seal, self._hash = seal, hashlib.sha256()  # of all lines
        arrays = arrays_path(self.path)
        for there in () if overwrite or append else (self.path, arrays):
            if there.exists():
                raise FileExistsError(f"{there} exists, and a trace is not overwritten. Name another, or remove it.")
        self._lock = threading.Lock()
        self._spaces: dict[str, int] = {}  # their text, and the episode whose header has it
        self._last: Any = None  # spaces, and their forms
        self._numbers: set[int] = set()
        self._next = 0
        self._unusable = ""
        self._hold, self._held = hold, bytearray()
        self._file = self.path.open("ab" if append else "wb" if overwrite else "xb", buffering=0)
        if append:
            with self.path.open("rb") as before:
                begins = max(0, before.seek(0, 2) - LIMITS.line_bytes)
                before.seek(begins)
                self._file.truncate(begins + before.read().rfind(b"\n") + 1)
                before.seek(0)
                while part := before.read(1 << 20):
                    self._hash.update(part)
        else:
            arrays.unlink(missing_ok=True)
        self._arrays = ArrayFile(arrays, append=append)

    def reserve(self, numbers: int) -> None:
        """Keep the numbers below this for episodes that are given theirs."""
        self._next = max(self._next, numbers)

    def begin(self, opening: Opening, *, number: int | None = None) -> EpisodeWriter:
        """Write the header of an episode, with the next number unless you give one."""
        spec, (spaces, text) = opening.spec_form(), self._spaces_of(opening)
        chosen: list[int] = []

        def header(keep: Keep) -> Header:
            chosen.append(self._number(number))
            known = None if text is None else self._spaces.get(text)
            return Header(
                episode=chosen[0],
                format=FORMAT,
                env=opening.env,
                spec=spec,
                digest=opening.digest,
                seed=int(opening.seed) if isinstance(opening.seed, (int, np.integer)) else None,
                options=None if opening.options is None else free_form(dict(opening.options), keep, "options"),
                task=free_form(opening.task, keep, "task", drop=True),
                spaces=spaces if known is None else known,
                about=free_form(dict(opening.about or {}), keep, "about", drop=True),
                isolation=opening.isolation or msgspec.UNSET,
            )

        self.write(header)
        if text is not None:
            self._spaces.setdefault(text, chosen[0])
        return EpisodeWriter(self, chosen[0], opening, typed=spaces is not None)

    def _spaces_of(self, opening: Opening) -> tuple[dict[str, Any] | None, str | None]:
        """The spaces as JSON data and as text, read again only if they differ from the last episode's."""
        spaces = opening.observation_space, opening.action_space
        if self._last is None or not all(map(_is_same, spaces, self._last[0])):
            form = opening.spaces_form()
            self._last = spaces, form, None if form is None else json.dumps(form)
        return self._last[1], self._last[2]

    def _number(self, wanted: int | None) -> int:
        number = self._next if wanted is None else wanted
        if number in self._numbers or number < 0:
            raise InvalidTrace(f"There is an episode {number} in {self.path} already. Choose another number.")
        self._numbers.add(number)
        self._next = max(self._next, number + 1)
        return number

    def write(self, line_of: Callable[[Keep], Line], episode: EpisodeWriter | None = None) -> None:
        """Write a line, its arrays first. An invalid line leaves the trace as it was; a full disk ends it."""
        with self._lock:
            if self._unusable:
                raise InvalidTrace(f"{self.path} {self._unusable}")
            # While the trace is locked: another thread may have given the episode up and ended it.
            if episode is not None and episode.over:
                raise InvalidTrace(f"Episode {episode.number} of {self.path} has ended. Begin another.")
            batch: list[Any] = []
            try:
                text = to_text(line_of(lambda array: {"$array": self._arrays.place(array, batch)}))
            except PaddockError:
                raise
            except ValueError as error:
                raise InvalidTrace(f"{self.path}: {error}.") from None
            if batch:
                try:
                    self._arrays.write(batch)
                except BaseException:
                    self._unusable = _BROKEN
                    raise
            self._held += text
            self._hash.update(text)
            if len(self._held) > self._hold:
                self._write_held()

    @property
    def chain(self) -> str:
        """The SHA-256 of all lines so far."""
        return self._hash.hexdigest()

    def flush(self) -> None:
        """Hand the lines that are held back to the system."""
        with self._lock:
            if not self._unusable:
                self._write_held()

    def _write_held(self) -> None:
        held, self._held = self._held, bytearray()
        try:
            if held:
                write_all(self._file, held)
        except BaseException:  # half a line may be there: nothing can follow it
            self._unusable = _BROKEN
            raise

    def close(self) -> None:
        """Close the files. An episode without an end counts as broken off. Safe to call twice."""
        with self._lock:
            try:
                if self._seal and not self._unusable and self._numbers:
                    self._held += to_text(Seal(episodes=len(self._numbers), sha256=self.chain))
                if not self._unusable:
                    self._write_held()
            finally:
                self._unusable = self._unusable or "is closed."
                self._arrays.close()
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if (
            error is not None and not self._numbers and not self._appends
        ):  # an empty trace: free the name for the next try
            self.path.unlink(missing_ok=True)


class EpisodeWriter:
    """One episode of a trace: ``reset``, then steps, then ``end``. After the end nothing is written."""

    def __init__(self, trace: TraceWriter, number: int, opening: Opening, *, typed: bool) -> None:
        self._trace, self.number = trace, number
        # A custom space is not in the header, so its values are data like any other.
        self._observations, self._actions = (opening.observation_space, opening.action_space) if typed else (None, None)
        self._total = 0.0
        self._messages: list[Any] = []  # of the last call, and its other fields
        self._request: dict[str, Any] = {}
        self.over = False

    def reset(self, observation: Any, info: Mapping[str, Any]) -> None:
        """What ``env.reset`` returned."""
        self._write(
            lambda keep: ResetLine(
                episode=self.number,
                observation=member_text(self._observations, observation, keep, "observation"),
                info=_info_form(info, keep),
            )
        )
        self._trace.flush()

    def step(
        self,
        action: Any,
        observation: Any,
        reward: SupportsFloat,
        terminated: bool,
        truncated: bool,
        info: Mapping[str, Any],
    ) -> None:
        """The action, and what ``env.step`` returned."""
        number = float(reward)
        if self._actions is not None and not (type(self._actions) is Struct and type(action) in self._actions.records):
            # As the environment gets it: a list of numbers becomes an array, a dict a record.
            with suppress(Nonconforming):
                action = conform(self._actions, action)
        self._write(
            lambda keep: StepLine(
                episode=self.number,
                action=member_text(self._actions, action, keep, "action"),
                observation=member_text(self._observations, observation, keep, "observation"),
                reward=number if math.isfinite(number) else free_form(number, keep, "reward"),
                terminated=bool(terminated),
                truncated=bool(truncated),
                info=_info_form(info, keep),
            )
        )
        self._total += number

    def call(self, call: ModelCall) -> None:
        """A call of a model, at any time between header and end."""
        request = {name: value for name, value in call.request.items() if name != "messages"}
        same = [name for name, value in request.items() if name in self._request and self._request[name] == value]
        kept, messages = self._new_messages(call.messages)
        line = CallLine(
            episode=self.number,
            kept=kept,
            messages=messages,
            request={name: value for name, value in request.items() if name not in same},
            same=same,
            reply=call.reply,
            error=None if call.error is None else _error_form(call.error),
            turn=call.turn,
            retry=call.retry,
            began_s=call.began_s,
            seconds=call.seconds,
            cost=call.cost,
        )
        self._write(lambda keep: line)
        self._request = request

    def rollout(self, messages: list[Any], **known: Any) -> None:
        """What is known of the rollout, before its end: the whole conversation, and the other fields of its line."""
        kept, new = self._new_messages(messages)
        line = RolloutLine(episode=self.number, kept=kept, messages=new, **known)
        self._write(lambda keep: line)

    def _new_messages(self, messages: list[Any]) -> tuple[int, list[Any]]:
        """How many messages are as they were in the last call, and those after."""
        kept = 0
        for old, new in zip(self._messages, messages, strict=False):
            if old is not new and old != new:
                break
            kept += 1
        self._messages = messages
        return kept, messages[kept:]

    def end(self, error: tuple[str, str] | None = None) -> None:
        """End the episode. With an error, (code, message), there is no return, not even zero."""

        def line(keep: Keep) -> EndLine:
            self.over = True
            chain = self._trace.chain
            if error is None:
                return EndLine(episode=self.number, total=free_form(self._total, keep, "return"), chain=chain)
            return EndLine(episode=self.number, error=_error_form(error), chain=chain)

        self._write(line)

    def _write(self, line_of: Callable[[Keep], Line]) -> None:
        self._trace.write(line_of, self)


def _is_same(space: Space[Any] | None, other: Space[Any] | None) -> bool:
    """Whether two spaces have the same form; equal Boxes may differ in their last bits."""
    return space is other or (type(space) is Struct and space == other)


def _error_form(error: tuple[str, str]) -> EpisodeError:
    return EpisodeError(error[0], error[1][:MESSAGE_LIMIT])


def _info_form(info: Mapping[str, Any], keep: Keep) -> Any:
    return free_form(dict(info), keep, "info", drop=True) if info else {}


class Recorder(Wrapper[Any, Any, Any, Any]):
    """Writes every episode of ``env`` into ``trace``: a path, for a trace that ``close`` seals, or your own writer.

    It changes nothing, so no spec names it. If the environment raises, that is the episode's error; an episode that you
    leave with another reset simply ends there. Give each reset a seed: only then can the episode be replayed.

    >>> import paddock, tempfile
    >>> from paddock.record.trace import Recorder, TraceReader
    >>> path = tempfile.mkdtemp() + "/cartpole.jsonl"
    >>> with Recorder(paddock.make("CartPole-v1"), path) as env:
    ...     observation, info = env.reset(seed=1)
    ...     observation, reward, terminated, truncated, info = env.step(0)
    >>> [(episode.seed, len(episode.steps), episode.total_return) for episode in TraceReader(path)]
    [(1, 1, 1.0)]
    """

    def __init__(self, env: Env[Any, Any], trace: str | os.PathLike[str] | TraceWriter) -> None:
        super().__init__(env)
        self._owned = not isinstance(trace, TraceWriter)
        self._trace = trace if isinstance(trace, TraceWriter) else TraceWriter(trace, seal=True)
        self._episode: EpisodeWriter | None = None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        self._end()
        opening = Opening.of(self.env, seed=seed, options=options)
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except BaseException as error:
            self._trace.begin(opening).end(describe_error(error))
            raise
        task = info.get("task")
        if isinstance(task, Mapping) and {"split", "index"} <= task.keys():  # only now known: the seed drew it
            opening = replace(opening, task=dict(task))
        self._episode = self._trace.begin(opening)
        self._episode.reset(observation, info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        try:
            result = self.env.step(action)
        except BaseException as error:
            self._end(error)
            raise
        if self._episode is not None:
            self._episode.step(action, *result)
            if result[2] or result[3]:
                self._end()
        return result

    def close(self) -> None:
        try:
            self._end()
        finally:
            if self._owned:
                self._trace.close()
            self.env.close()

    def _end(self, error: BaseException | None = None) -> None:
        episode, self._episode = self._episode, None
        if episode is not None:
            episode.end(None if error is None else describe_error(error))

    def _append_to_spec(self, spec: EnvSpec) -> EnvSpec:
        return spec


def describe_error(error: BaseException) -> tuple[str, str]:
    """The code and the message of an error, for the end of an episode."""
    return (error.code if isinstance(error, PaddockError) else "ENV_ERROR"), f"{type(error).__name__}: {error}"
