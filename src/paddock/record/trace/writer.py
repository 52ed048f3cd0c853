"""Write a trace, a line at a time. A line is with the system when a call returns: a crash loses nothing before it.

Episodes may be written side by side, from several threads: every line says whose it is.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat

import numpy as np

from paddock.errors import InvalidTrace, PaddockError
from paddock.record.trace.arrays import ArrayFile, beside, write_all
from paddock.record.trace.lines import FORMAT, MESSAGE_LIMIT, End, Error, Header, Line, Reset, Seal, Stepped, to_text
from paddock.record.trace.opening import Opening
from paddock.record.trace.values import Keep, free_form, member_form
from paddock.spaces import Space
from paddock.spaces.conform import Nonconforming, conform

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from typing_extensions import Self


class TraceWriter:
    """A new trace at ``path``, its arrays in ``path.arrays``. One that is there is refused unless ``overwrite``.

    ``seal``: when it is closed, a last line says how many episodes there are and has a hash over all of them, so that
    a reader notices if one is left out. Older readers refuse that line.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False, seal: bool = False) -> None:
        self.path = Path(path)
        self._hash = hashlib.sha256() if seal else None
        arrays = beside(self.path)
        for there in () if overwrite else (self.path, arrays):
            if there.exists():
                raise FileExistsError(f"{there} exists, and a trace is not overwritten. Name another, or remove it.")
        self._lock = threading.Lock()
        self._spaces: dict[str, int] = {}  # their text, and the episode whose header has it
        self._numbers: set[int] = set()
        self._next = 0
        self._unusable = ""
        self._file = self.path.open("wb" if overwrite else "xb", buffering=0)
        arrays.unlink(missing_ok=True)
        self._arrays = ArrayFile(arrays)

    def begin(self, opening: Opening, *, number: int | None = None) -> EpisodeWriter:
        """The header of an episode, which gets the next number unless one is given."""
        spec, spaces = opening.spec_form(), opening.spaces_form()
        text = None if spaces is None else json.dumps(spaces)
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
            )

        self.write(header)
        if text is not None:
            self._spaces.setdefault(text, chosen[0])
        return EpisodeWriter(self, chosen[0], opening, typed=spaces is not None)

    def _number(self, wanted: int | None) -> int:
        number = self._next if wanted is None else wanted
        if number in self._numbers or number < 0:
            raise InvalidTrace(f"There is an episode {number} in {self.path} already. Choose another number.")
        self._numbers.add(number)
        self._next = max(self._next, number + 1)
        return number

    def write(self, line_of: Callable[[Keep], Line]) -> None:
        """Write a line, its arrays first. What can't be written leaves the trace as it was; a full disk ends it."""
        with self._lock:
            if self._unusable:
                raise InvalidTrace(f"{self.path} {self._unusable}")
            batch: list[Any] = []
            try:
                text = to_text(line_of(lambda array: {"$array": self._arrays.place(array, batch)}))
            except PaddockError:
                raise
            except ValueError as error:
                raise InvalidTrace(f"{self.path}: {error}.") from None
            try:
                self._arrays.write(batch)
                write_all(self._file, text)
                if self._hash is not None:
                    self._hash.update(text)
            except BaseException:  # half a line may be there: nothing can follow it
                self._unusable = "could not be written; what is before that is whole."
                raise

    def close(self) -> None:
        """Close the files. An episode without an end stays one that broke off. Safe to call twice."""
        with self._lock:
            if self._hash is not None and not self._unusable and self._numbers:
                write_all(self._file, to_text(Seal(episodes=len(self._numbers), sha256=self._hash.hexdigest())))
            self._unusable = self._unusable or "is closed."
            self._arrays.close()
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is not None and not self._numbers:  # nothing came of it: the next try may have the name
            self.path.unlink(missing_ok=True)


class EpisodeWriter:
    """One episode of a trace: ``reset``, then steps, then ``end``. After the end nothing is written."""

    def __init__(self, trace: TraceWriter, number: int, opening: Opening, *, typed: bool) -> None:
        self._trace, self.number = trace, number
        # A space of a class of one's own is not in the header, so its values are data like any other.
        self._observations, self._actions = (opening.observation_space, opening.action_space) if typed else (None, None)
        self._total = 0.0
        self.over = False

    def reset(self, observation: Any, info: Mapping[str, Any]) -> None:
        """What ``env.reset`` returned."""
        self._write(
            lambda keep: Reset(
                episode=self.number,
                observation=member_form(self._observations, observation, keep, "observation"),
                info=_info_form(info, keep),
            )
        )

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
        fitted = action if self._actions is None else _fitted(self._actions, action)
        self._write(
            lambda keep: Stepped(
                episode=self.number,
                action=member_form(self._actions, fitted, keep, "action"),
                observation=member_form(self._observations, observation, keep, "observation"),
                reward=free_form(number, keep, "reward"),
                terminated=bool(terminated),
                truncated=bool(truncated),
                info=_info_form(info, keep),
            )
        )
        self._total += number

    def end(self, error: tuple[str, str] | None = None) -> None:
        """Nothing more comes. With an error, (code, message), there is no return, not even zero."""
        told = None if error is None else Error(error[0], error[1][:MESSAGE_LIMIT])

        def line(keep: Keep) -> End:
            self.over = True
            return End(episode=self.number, error=told, total=None if told else free_form(self._total, keep, "return"))

        self._write(line)

    def _write(self, line_of: Callable[[Keep], Line]) -> None:
        def checked(keep: Keep) -> Line:
            # While the trace is locked: who gave the episode up may have ended it from another thread.
            if self.over:
                raise InvalidTrace(f"Episode {self.number} of {self._trace.path} has ended. Begin another.")
            return line_of(keep)

        self._trace.write(checked)


def _fitted(space: Space[Any], action: Any) -> Any:
    """The action as the environment gets it: a list of numbers is an array by then, a dict a record."""
    try:
        return conform(space, action)
    except Nonconforming:
        return action


def _info_form(info: Mapping[str, Any], keep: Keep) -> Any:
    return free_form(dict(info), keep, "info", drop=True)
