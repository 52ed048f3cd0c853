"""What a peer's request may be: which messages a role may send, and what becomes of a Make before a worker gets it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from paddock.errors import BadFrame, NotPermitted
from paddock.hosting import messages as m
from paddock.hosting.codec import PREFIX_BYTES, decode_frame, encode
from paddock.hosting.limits import PEER_LIMITS
from paddock.hosting.one_step import read
from paddock.server.principals import Role
from paddock.server.served import Served

_OPERATOR = (m.Make, m.Reset, m.Step, m.State, m.Render, m.Snapshot, m.Restore, m.Call, m.Close)
MAY: dict[Role, tuple[type, ...]] = {
    "operator": _OPERATOR,
    "agent": (m.Make, m.Step, m.Render, m.Close),  # neither resets nor sees the state: it could hold answers
    "observer": (m.Make, m.State, m.Render, m.Close),
}
# In production an episode is not the peer's to control.
CLOSED_IN_PRODUCTION = (m.Reset, m.Step, m.State, m.Snapshot, m.Restore, m.Call)
# Methods of environments that get the name of an attribute, as Gymnasium has them.
_FIND_OTHERS = ("get_wrapper_attr", "has_wrapper_attr", "set_wrapper_attr", "call", "get_attr", "set_attr")
_MAKE = b"\xa4type\xa4make"  # behind the byte that begins a map


def read_request(frame: bytes, served: Served, role: Role, *, production: bool) -> m.Request:
    """The request in a peer's frame; NotPermitted or BadFrame if it must not reach the worker."""
    _, message = read(frame) or decode_frame(frame, limits=PEER_LIMITS)
    if not isinstance(message, MAY[role]):
        advice = f" {no_episode(served)}" if role == "agent" and isinstance(message, m.Reset) else ""
        raise NotPermitted(f"The role {role!r} may not ask for {type(message).__name__.lower()}.{advice}")
    if production and isinstance(message, CLOSED_IN_PRODUCTION):
        raise NotPermitted(f"In production mode {type(message).__name__.lower()} is closed.")
    if is_make(frame) != isinstance(message, m.Make):
        raise BadFrame("The type of a Make comes first, and a message has one type.")
    if type(message) is m.Step:
        return message
    if isinstance(message, m.Call) and (_is_private(message) or not message.name.isidentifier()):
        raise NotPermitted("A call names one attribute; those that begin with an underscore are the environment's own.")
    if isinstance(message, m.Make) and (message.autoreset is not None or message.env):
        raise BadFrame("A Make is for environment 0, without autoreset.")
    if isinstance(message, m.Make):
        served.what(message.what)  # says what must not pass
    return message  # type: ignore[return-value]


def no_episode(served: Served) -> str:
    """For an agent that would need an episode to have begun."""
    path = f"/{quote(served.name, safe='')}/handover"
    return (
        f"An agent can't begin an episode here. Ask an operator to hand you a session where one has begun: POST {path}."
    )


def _is_private(call: m.Call) -> bool:
    """Whether it means an attribute that begins with an underscore; some methods take the name of another."""
    name: Any = call.name
    arguments = iter((*call.args, call.kwargs.get("name")))
    while isinstance(name, str) and name in _FIND_OTHERS:
        name = next(arguments, None)
    return isinstance(name, str) and name.startswith("_")


def is_make(frame: bytes) -> bool:
    """Whether the frame says so at its beginning; ``read_request`` lets no other Make pass, and nothing else as one."""
    return frame.startswith(_MAKE, PREFIX_BYTES + 1)


def for_worker(frame: bytes, served: Served, seed: int) -> bytes:
    """What a worker gets for a peer's Make: one of this server's environment, with the arguments that may pass."""
    number, message = decode_frame(frame, limits=PEER_LIMITS)
    assert isinstance(message, m.Make)
    what = {**served.what(message.what), "seed": seed}
    return b"".join(encode(m.Make(0, what), number))
