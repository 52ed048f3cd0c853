"""What may be asked of a server's environment, and what ``explain`` says of it. Pure: nothing is connected to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddock.errors import NotTransferable, PlanError
from paddock.hosting.remote_address import parse_address
from paddock.hosting.values import to_wire
from paddock.making.isolation import Isolation
from paddock.making.remote_options import RemoteOptions
from paddock.making.target import Target
from paddock.making.wrapper_stack import WrapperLike

_WIRES = {
    "auto": "paddock.v1; OpenEnv's JSON if the server speaks no other (which one it was, the environment's repr says)",
    "paddock.v1": "paddock.v1 and no other",
    "openenv": "OpenEnv's JSON and no other",
}


def check_remote(
    target: Target,
    remote: RemoteOptions | None,
    *,
    num_envs: int | None,
    isolation: Isolation,
    backend: str,
    validate: bool | None,
    max_episode_steps: int | None,
    wrappers: Sequence[WrapperLike],
    env_kwargs: dict[str, Any],
) -> None:
    """PlanError for a wish that only whoever runs the server could fulfil."""
    if remote is not None and not isinstance(remote, RemoteOptions):
        raise PlanError(f"remote={type(remote).__name__}: expected paddock.RemoteOptions(...).")
    options = remote or RemoteOptions()
    options.check()
    assert target.url is not None
    parse_address(target.url, token=options.token, insecure=options.insecure, environ={})
    if isolation is not None:
        raise PlanError(
            f"isolation={isolation!r} can't be used with {target.text!r}: the server runs the environment, behind a "
            f"wall of its own. Drop isolation, or make the environment's code here."
        )
    if backend != "auto":
        raise PlanError(f"backend={backend!r} can't be used with {target.text!r}: the server chooses it. Drop backend.")
    if validate is not None or max_episode_steps is not None:
        name = "validate" if validate is not None else "max_episode_steps"
        raise PlanError(
            f"{name}= can't be used with {target.text!r}: what its episodes are, the server decides. A shorter limit "
            f"here: wrappers=[paddock.wrappers.TimeLimit.wrapper_spec(max_episode_steps=n)]."
        )
    if num_envs is not None and wrappers:
        raise PlanError(
            "wrappers= go around each lane, and these lanes are at the server. Wrap the result of make() with one of "
            "paddock.wrappers.vector."
        )
    if "token" in env_kwargs and parse_address(target.url, token=options.token, insecure=True).authorization is None:
        raise PlanError(
            "token= would go to the environment as an argument of its own. The server's token goes into "
            "remote=paddock.RemoteOptions(token=...), the URL's user part, or the variable PADDOCK_TOKEN."
        )
    for name, value in env_kwargs.items():
        try:
            to_wire(value, [], name=name)
        except NotTransferable as error:
            raise PlanError(f"{error} So the server can't be sent it.") from None


def remote_lines(target: Target, remote: RemoteOptions | None) -> list[tuple[str, str]]:
    """Rows for a plan."""
    options = remote or RemoteOptions()
    assert target.url is not None
    address = parse_address(target.url, token=options.token, insecure=options.insecure)
    by = "a unix socket" if address.unix is not None else "TLS" if address.secure else "plain TCP"
    waits = "no limit" if options.deadline_s is None else f"{options.deadline_s:g} s"
    return [
        ("server", str(address)),
        ("environment", address.id or "the only one of the server"),
        ("wire", _WIRES[options.wire]),
        ("connection", f"{by}, {'with a token' if address.authorization is not None else 'without a token'}"),
        ("patience", f"{options.connect_s:g} s to connect, {waits} for a reply, {options.resume_s:g} s to resume"),
        ("results", "checked against the declared spaces before they are believed"),
    ]
