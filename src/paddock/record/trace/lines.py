"""The lines of a trace as types, and as text. A line that is too long or too full for a reader is never written."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import msgspec

from paddock.errors import InvalidTrace
from paddock.spaces.json_data import JsonLimits, read_json

FORMAT = "paddock.trace.v1"
MESSAGE_LIMIT = 2000


@dataclass(frozen=True)
class Limits:
    """How much a reader accepts. ``held_bytes``: of all episodes that have begun and not ended, arrays included."""

    line_bytes: int = 32 << 20
    line_pieces: int = 1 << 20  # brackets and commas: each makes an object that takes many times its bytes
    array_bytes: int = 1 << 30
    held_bytes: int = 4 << 30
    episodes: int = 1 << 20


LIMITS = Limits()
# The reader of the file counts bytes and pieces. A key that begins with $ makes three levels of one.
_JSON = JsonLimits(sys.maxsize, nesting=256, surrogates=True)


class _Line(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    episode: int


class Header(_Line, kw_only=True, tag="header"):
    """An episode begins. ``spaces``: its own, the number of an earlier episode with the same ones, or none.

    ``isolation``: the tier that the environment's code ran in; older traces do not say.
    """

    format: str
    env: str | None = None
    spec: dict[str, Any] | None = None
    digest: str | None = None
    seed: int | None = None
    options: Any = None
    task: Any = None
    spaces: dict[str, Any] | int | None = None
    about: Any = None
    isolation: str | msgspec.UnsetType = msgspec.UNSET


class ResetLine(_Line, kw_only=True, tag="reset"):
    """What ``reset`` returned."""

    observation: Any
    info: Any


class StepLine(_Line, kw_only=True, tag="step"):
    """An action, and what ``step`` returned."""

    action: Any
    observation: Any
    reward: Any
    terminated: bool
    truncated: bool
    info: Any


class EpisodeError(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Why an episode has no return: ``code`` as on the wire."""

    code: str
    message: str


class CallLine(_Line, kw_only=True, tag="call", omit_defaults=True):
    """A call of a model, as plain JSON without tags.

    Its messages are the first ``kept`` of the call before in this episode and then ``messages``. The fields of the
    request that ``same`` names are as in that call, too.
    """

    kept: int = 0
    messages: list[Any] = []
    request: dict[str, Any] = {}
    same: list[str] = []
    reply: Any = None
    error: EpisodeError | None = None
    turn: int = 0
    retry: int = 0
    began_s: float = 0.0
    seconds: float = 0.0
    cost: float = 0.0


class RolloutLine(_Line, kw_only=True, tag="rollout", omit_defaults=True):
    """What is known of a rollout when it ends. Its messages are written as a call's are."""

    kept: int = 0
    messages: list[Any] = []
    turns: int = 0
    retries: int = 0
    seconds: float = 0.0
    where: str | None = None


class EndLine(_Line, kw_only=True, tag="end"):
    """The episode is over. ``total`` is its return; none where an error ended it.

    ``chain``: the SHA-256 of every line before this one; older traces have none.
    """

    error: EpisodeError | None = None
    total: Any = msgspec.field(name="return", default=None)
    chain: str | msgspec.UnsetType = msgspec.UNSET


class Seal(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="seal"):
    """The trace is over. ``sha256``: over every line before this one, so that none can be left out."""

    episodes: int
    sha256: str


Line = Header | ResetLine | StepLine | CallLine | RolloutLine | EndLine


def to_text(line: Line | Seal) -> bytes:
    """The line with its newline. ASCII, so that no text in it can control a terminal or end a line early."""
    try:
        text = msgspec.json.encode(line)
    except (TypeError, ValueError, OverflowError, UnicodeError):  # a lone surrogate, an integer of more than 64 bits
        text = b"\xff"
    if not text.isascii() or b"\x7f" in text:
        fields = msgspec.to_builtins(line, enc_hook=_unwrap)
        text = json.dumps(fields, allow_nan=False, separators=(",", ":")).encode("ascii")
    text += b"\n"
    long = len(text) > LIMITS.line_pieces and not isinstance(line, Seal)  # each piece is a byte at least
    if long and (len(text) > LIMITS.line_bytes or pieces(text) > LIMITS.line_pieces):
        assert not isinstance(line, Seal)
        raise InvalidTrace(
            f"episode {line.episode}: a {line.__struct_config__.tag} line of {len(text)} bytes and {pieces(text)} "
            f"brackets and commas; at most {LIMITS.line_bytes} and {LIMITS.line_pieces} are read. "
            f"Put numbers into arrays, or record less."
        )
    return text


def _unwrap(value: Any) -> Any:
    """JSON that is text already, or an object in the reply of someone's client."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    return vars(value) if hasattr(value, "__dict__") else str(value)


def from_text(text: bytes, limits: Limits = LIMITS) -> Line | Seal:
    """The line, or a ValueError whose text goes after the line's number."""
    if pieces(text) > limits.line_pieces:
        raise ValueError(f"more than {limits.line_pieces} brackets and commas")
    try:
        line: Line | Seal = msgspec.convert(read_json(text, _JSON), Line | Seal)
        return line
    except msgspec.ValidationError as error:
        raise ValueError(f"not a line of a trace: {error}") from None


def pieces(text: bytes) -> int:
    """Count brackets and commas, those in strings too."""
    return text.count(b"[") + text.count(b"{") + text.count(b",")
