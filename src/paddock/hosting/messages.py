"""What passes between a client and a Host: one union of requests, one of replies, and how large they may be.

A Host may hold several environments; each request names those it means by number. Values (actions, observations,
infos, arguments) are wire types, see ``values``: a peer never names code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

# Long text, long bytes and large integers arrive as markers: the codec, not msgspec, checks fields of these types.
if TYPE_CHECKING:
    LongText: TypeAlias = str
    LongBytes: TypeAlias = bytes
    LargeInteger: TypeAlias = int
else:
    LongText = LongBytes = LargeInteger = Any


class Make(msgspec.Struct, tag="make", frozen=True):
    """Make environment ``env``. ``what`` is between the client and the ``build`` function of the Host.

    Done: ``Description`` as a dict. With ``autoreset`` (a value of AutoresetMode) the environment is a lane that
    begins its episodes itself; without, it is stepped as it is. Making a number again closes what had it before.
    """

    env: int
    what: dict[str, Any]
    autoreset: str | None = None


class Reset(msgspec.Struct, tag="reset", frozen=True):
    """Begin an episode. Done: [observation, info]."""

    env: int
    seed: LargeInteger | None = None
    options: Any = None


class Step(msgspec.Struct, tag="step", frozen=True):
    """Step environments, one action each, in this order.

    Done: for each [observation, reward, terminated, truncated, info], or a Failed for that one alone.
    """

    envs: list[int]
    actions: list[Any]


class StepRows(msgspec.Struct, tag="step rows", frozen=True, omit_defaults=True):
    """Step environment 0 with an action that is rows, as its ``StepLayout`` has them. The reply: Rows, or as to Step.

    Where memory is shared, its rows ``envs`` are stepped, or all of them, with the actions that are there, or with
    ``actions`` where rows can't hold them; the reply is Rows. ``plain``: the action is an int of Python's.
    """

    envs: list[int] = []
    actions: list[Any] | None = None
    plain: bool = False
    rows: Any = None  # bytes; on the wire their number, and the body begins with them


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
    """Continue from a snapshot. Done: None."""

    env: int
    snapshot: LongBytes


class Call(msgspec.Struct, tag="call", frozen=True):
    """Use an attribute: call it if it is callable, get it, look whether there is one, or set it to ``args[0]``.

    Done: the result; for "has" an empty text, "value" or "callable".
    """

    env: int
    name: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    how: Literal["call", "get", "has", "set"] = "call"


class Close(msgspec.Struct, tag="close", frozen=True):
    """Close one environment, or with None all of them: then this is the last request. Done: None. Twice is fine."""

    env: int | None = None


class Refuse(msgspec.Struct, tag="refuse", frozen=True):
    """From a server to its worker, in place of a request that the peer may not make. The reply: Failed with these.

    So a refused request has its place among the others, and its reply, like any other.
    """

    code: str
    message: str


Request: TypeAlias = Make | Reset | Step | StepRows | State | Render | Snapshot | Restore | Call | Close | Refuse


class Done(msgspec.Struct, tag="done", frozen=True):
    """The request was carried out."""

    value: Any = None


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """It was not. ``code`` is from the table in ``paddock.errors``; ``trace`` is never sent to a remote peer."""

    code: LongText
    message: LongText
    error_type: LongText = ""
    trace: LongText = ""


class Rows(msgspec.Struct, tag="rows", frozen=True, omit_defaults=True):
    """The results of StepRows, but for what ``notes`` say of some environments.

    A note is [env, info], [env, info, observation] where observations have no fixed size, or [env, Failed].
    ``plain``: the observation is an int of Python's. Without ``rows``, they are in shared memory.
    """

    notes: list[Any] | None = None
    plain: bool = False
    rows: Any = None  # bytes; on the wire their number, and the body begins with them


Reply: TypeAlias = Done | Failed
StepReply: TypeAlias = Done | Failed | Rows


class StepJson(msgspec.Struct, tag="step json", frozen=True):
    """From a server to its worker: step environment 0, whose actions and observations are JSON objects.

    The reply is an Outcome, or that to a Step where an Outcome can't hold the results.
    """

    action: bytes


class Outcome(msgspec.Struct, tag="outcome", frozen=True):
    """What came of a StepJson; its info is left out, because OpenEnv's clients never get one."""

    observation: bytes
    reward: float
    terminated: bool
    truncated: bool


class Attach(msgspec.Struct, tag="attach", frozen=True):
    """From a Channel to the far end of its socket, unseen by the Host: shared memory for these environments' steps.

    The file descriptor comes with the frame. Both ends lay the memory out from the layouts (``rows.layout``; None
    for values without a fixed size) and the number of environments, ``rows``. ``awake_s``: how long the worker may spin
    for the next step before it sleeps. Done: None.
    """

    rows: int
    observations: dict[str, Any] | None
    actions: dict[str, Any] | None
    awake_s: float = 0.0


class Resume(msgspec.Struct, frozen=True):
    """Which session a client wants back. ``last``: the newest request whose reply it has, 0 for none.

    A token serves once. But a Welcome may be lost on its way, so the same ``holder`` (a random name that the client
    keeps secret) may come again with the same token and a higher ``attempt``.
    """

    session: Annotated[str, msgspec.Meta(max_length=64)]
    token: Annotated[str, msgspec.Meta(max_length=64)]
    last: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    holder: Annotated[str, msgspec.Meta(max_length=64)] = ""
    attempt: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)] = 0


class Hello(msgspec.Struct, tag="hello", frozen=True):
    """A client's first frame, number 0: a new session, or one that it had. Answered by Welcome or Failed."""

    resume: Resume | None = None


class Waiting(msgspec.Struct, tag="waiting", frozen=True, omit_defaults=True):
    """From a server, number 0, before the Welcome: ``ahead`` sessions are queued before this one, for about ``wait_s``.

    Any number of these may come, for clients that also offer the subprotocol ``paddock.v1.waiting``.
    """

    ahead: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    wait_s: Annotated[float, msgspec.Meta(ge=0, lt=1e6)] | None = None  # unknown until a worker was started


class Welcome(msgspec.Struct, tag="welcome", frozen=True, omit_defaults=True):
    """The session that a connection has from now on. ``last``: the newest request that the server took, 0 for none.

    ``token`` is for the next Hello, within ``grace_s`` seconds after the connection breaks. ``was``: the session that
    the client asked for, if a gateway moved it before its first step; ``session`` has taken its place.
    """

    session: Annotated[str, msgspec.Meta(max_length=64)]
    token: Annotated[str, msgspec.Meta(max_length=64)]
    epoch: int
    last: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    grace_s: float
    was: Annotated[str, msgspec.Meta(max_length=64)] = ""


Message: TypeAlias = Request | StepReply | StepJson | Outcome | Attach | Hello | Waiting | Welcome


class Description(msgspec.Struct, frozen=True):
    """What a client must know about a far environment; spaces and spec as JSON text.

    A space of the user's own class has no JSON; then its field is None and ``custom`` names the class. With
    ``num_envs`` it is that many lanes, and the spaces are those of one lane. ``rows``: it may be sent StepRows.
    """

    observation_space: str | None
    action_space: str | None
    metadata: dict[str, Any]
    render_mode: str | None = None
    spec: str | None = None
    custom: str = ""
    num_envs: int | None = None
    rows: bool = False


V2, V1 = "paddock.v2", "paddock.v1"  # the wire, and what it was before StepRows and Rows


# Limits. Both ends keep the same ones: what one may send the other may read.


# Text and bytes of this length or more go into the body.
LONG_BYTES = 1024
# An action or observation as JSON in a StepJson or an Outcome; a longer one goes the way of other values.
JSON_BYTES = 1 << 19
# Decimal digits of an integer; Python reads 4,300.
INTEGER_DIGITS = 4096
# Environments have numbers below this.
ENV_LIMIT = 1 << 32


class Limits(msgspec.Struct, frozen=True):
    """Limits of one message, in bytes or as counts.

    What decoding may take, measured with tracemalloc (CPython 3.11, msgspec 0.22): at most 86 MiB for a full head of
    1 MiB (maps that hold an empty map, 3 bytes that become 248), 64 MiB for lists, 21 MiB for markers. The head is
    changed in place, so this is the peak, whether it is refused or not. Arrays take no memory beside the body. Long
    text may become four times as large (one rare letter makes all letters wide) and the JSON of a space 170 times (an
    alphabet of a Text), so both have limits of their own: 256 MiB and 180 MiB. Time: about a second for the worst head.
    """

    head_bytes: int = 1 << 20
    body_bytes: int = 1 << 28
    # Containers within containers. The message's own field is the first.
    depth: int = 64
    # Pieces of the body: arrays, long texts, long bytes.
    pieces: int = 1 << 16
    # Axes of an array: what NumPy 1 can hold.
    ndim: int = 32
    # All long texts of a message together.
    text_bytes: int = 1 << 26
    # All spaces and specs of a message together.
    json_bytes: int = 1 << 20
    # Keys of one dict that are neither text, bytes nor 64-bit integers: a peer could choose ones with equal hashes.
    odd_keys: int = 1 << 12


LIMITS = Limits()
# For requests of remote clients: a server takes no larger ones, so a client does not send them.
PEER_LIMITS = Limits(head_bytes=1 << 16, body_bytes=1 << 26, depth=32, pieces=1 << 12, odd_keys=1 << 8)


# Tools that a far environment declares in its ``metadata``


TOOLS_KEY = "tools"  # in ``env.metadata``
_MOST_TOOLS = 256


class _Tool(msgspec.Struct):
    name: str
    description: str = ""
    input_schema: str = "{}"
    output_schema: str | None = None


msgspec.msgpack.Decoder(Description)  # prepared before threads can use them at once: see core.spec_json
msgspec.msgpack.Decoder(_Tool)


def read_tools(metadata: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Name, description, input_schema and output_schema of each tool; None for an environment without tools.

    The metadata are the environment's claim: an entry that is not a tool is left out.
    """
    found = metadata.get(TOOLS_KEY)
    if not isinstance(found, (list, tuple)):
        return None
    tools: dict[str, dict[str, Any]] = {}
    for one in found[:_MOST_TOOLS]:
        try:
            tool = msgspec.convert(one, _Tool)
        except msgspec.ValidationError:
            continue
        schema = read_schema(tool.input_schema)
        if schema is not None and tool.name:
            tools.setdefault(
                tool.name,
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": schema,
                    "output_schema": read_schema(tool.output_schema),
                },
            )
    return list(tools.values())


def read_schema(text: Any) -> dict[str, Any] | None:
    """A JSON Schema that a far environment sent as text; None if it is not a JSON object."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if isinstance(text, str) else None
    except (msgspec.DecodeError, RecursionError):
        return None
