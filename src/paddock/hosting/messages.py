"""What passes between a client and a Host: one union of requests, one of replies.

A Host may hold several environments; each request names those it means by number. Values (actions, observations,
infos, arguments) are wire types, see ``values``: a peer never names code.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec


class Make(msgspec.Struct, tag="make", frozen=True):
    """Make environment ``env``. What ``what`` holds is between the client and the ``build`` that the Host was given.

    Done: ``Description`` as a dict. With ``autoreset`` (a value of AutoresetMode) the environment is a lane that
    begins its episodes itself; without, it is stepped as it is. Making a number anew closes what had it before.
    """

    env: int
    what: dict[str, Any]
    autoreset: str | None = None


class Reset(msgspec.Struct, tag="reset", frozen=True):
    """Begin an episode. Done: [observation, info]."""

    env: int
    seed: int | None = None
    options: Any = None


class Step(msgspec.Struct, tag="step", frozen=True):
    """Step environments, one action each, in this order.

    Done: for each [observation, reward, terminated, truncated, info], or a Failed for that one alone. ``actions`` is
    None where a Channel's shared memory holds them; then Done has only what does not fit there, see
    ``serve.step_in_place``.
    """

    envs: list[int]
    actions: list[Any] | None = None


class State(msgspec.Struct, tag="state", frozen=True):
    """Done: [episode_id, step_count, public]."""

    env: int


class Render(msgspec.Struct, tag="render", frozen=True):
    """Done: what the environment's ``render`` returned."""

    env: int


class Snapshot(msgspec.Struct, tag="snapshot", frozen=True):
    """Done: bytes for Restore."""

    env: int


class Restore(msgspec.Struct, tag="restore", frozen=True):
    """Go on from a snapshot. Done: None."""

    env: int
    snapshot: bytes


class Call(msgspec.Struct, tag="call", frozen=True):
    """An attribute: called if it is callable, only read, looked for, or set to ``args[0]``.

    Done: the result; for "has" an empty text, "value" or "callable".
    """

    env: int
    name: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    how: Literal["call", "get", "has", "set"] = "call"


class Close(msgspec.Struct, tag="close", frozen=True):
    """Close one environment, or with None all of them: the last request. Done: None; closing twice is fine."""

    env: int | None = None


class Refuse(msgspec.Struct, tag="refuse", frozen=True):
    """From a server to its worker in place of a request that the peer may not make; its Failed, with these, answers.

    So a refused request has its place among the others, and its reply, as any other has.
    """

    code: str
    message: str


Request: TypeAlias = "Make | Reset | Step | State | Render | Snapshot | Restore | Call | Close | Refuse"


class Done(msgspec.Struct, tag="done", frozen=True):
    """The request was carried out."""

    value: Any = None


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """It was not. ``code`` is from the table in ``paddock.errors``; ``trace`` is for local tiers, never for a peer."""

    code: str
    message: str
    error_type: str = ""
    trace: str = ""


Reply: TypeAlias = "Done | Failed"


class Attach(msgspec.Struct, tag="attach", frozen=True):
    """From a Channel to the far end of its socket, no Host sees it: shared memory for these environments' steps.

    The file descriptor comes with the frame. Both ends lay the memory out from the layouts (``rows.layout``; None
    for values without a fixed size) and the number of environments, ``rows``. ``awake_s``: how long the worker may wait
    for the next step without falling asleep. Done: None.
    """

    rows: int
    observations: dict[str, Any] | None
    actions: dict[str, Any] | None
    awake_s: float = 0.0


class Resume(msgspec.Struct, frozen=True):
    """Which session a client wants back. ``last``: the newest request whose reply it has, 0 for none.

    A token serves once. A Welcome may be lost on its way, though, so the same ``holder`` (a random name of the client,
    never told to anyone else) may come again with the same token and a higher ``attempt``.
    """

    session: Annotated[str, msgspec.Meta(max_length=64)]
    token: Annotated[str, msgspec.Meta(max_length=64)]
    last: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    holder: Annotated[str, msgspec.Meta(max_length=64)] = ""
    attempt: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)] = 0


class Hello(msgspec.Struct, tag="hello", frozen=True):
    """A client's first frame, number 0: a new session, or one that it had. Answered by Welcome or Failed."""

    resume: Resume | None = None


class Waiting(msgspec.Struct, tag="waiting", frozen=True):
    """From a server, number 0, before the Welcome: ``ahead`` others are before this session, whose worker must start.

    Any number of them, for clients that offer the subprotocol ``paddock.v1.waiting`` beside the one that they speak.
    """

    ahead: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class Welcome(msgspec.Struct, tag="welcome", frozen=True):
    """The session that a connection has from now on. ``last``: the newest request that the server took, 0 for none.

    ``token`` is for the next Hello, within ``grace_s`` seconds after the connection broke.
    """

    session: Annotated[str, msgspec.Meta(max_length=64)]
    token: Annotated[str, msgspec.Meta(max_length=64)]
    epoch: int
    last: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    grace_s: float


Message: TypeAlias = (
    "Make | Reset | Step | State | Render | Snapshot | Restore | Call | Close | Refuse | "
    "Done | Failed | Attach | Hello | Waiting | Welcome"
)


class Description(msgspec.Struct, frozen=True):
    """What a client must know of an environment that it does not hold; spaces and spec as JSON text.

    A space of the user's own class has no JSON; then its field is None and ``custom`` says which class. With
    ``num_envs`` it is that many lanes, and the spaces are those of one lane.
    """

    observation_space: str | None
    action_space: str | None
    metadata: dict[str, Any]
    render_mode: str | None = None
    spec: str | None = None
    custom: str = ""
    num_envs: int | None = None
