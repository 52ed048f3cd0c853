"""Environments on servers: connect and make. Nothing that the far end says is believed unchecked.

The server picks the wire by the websocket's subprotocol; the environment's repr says which one it is.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from paddock.core.env import Env
from paddock.core.vector_env import VectorEnv
from paddock.errors import PlanError
from paddock.hosting.client import HostedEnv
from paddock.hosting.judge import WallRules
from paddock.hosting.remote_address import SUBPROTOCOLS, OtherWire, RemoteAddress, parse_address
from paddock.hosting.remote_channel import RemoteChannel
from paddock.hosting.remote_session import Patience
from paddock.making.options import RemoteOptions
from paddock.making.plan import Plan

if TYPE_CHECKING:
    from paddock.hosting.client import AsyncHostedEnv
    from paddock.hosting.websocket.blocking import BlockingConnection


_RULES = WallRules(server=True)


class RemoteEnv(HostedEnv):
    """An environment on a server, over paddock's own wire."""

    @property
    def address(self) -> str:
        """Where it is, without the token."""
        return str(self._channel.address)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"RemoteEnv({self.address}, wire {self._channel.wire})"  # type: ignore[attr-defined]


def build_remote(plan: Plan) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """Build the environment of a plan for a URL."""
    options = plan.remote or RemoteOptions()
    if options.wire == "openenv":
        return _openenv(plan, options)
    try:
        return _native(plan, options)
    except OtherWire as error:
        connection, text = error.connection, str(error)
    try:
        if options.wire != "auto":
            raise PlanError(f"{text} If it is an OpenEnv server, use RemoteOptions(wire='auto').")
        return _openenv(plan, options, connection)
    except BaseException:
        if connection is not None:
            connection.abort()
        raise


def _native(plan: Plan, options: RemoteOptions) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    channel = RemoteChannel(_address(plan, options), **_channel_options(options))
    what = what_to_make(plan)
    if plan.num_envs is None:
        env = RemoteEnv(channel, what, wall=_RULES)
        env._another = partial(_native, plan, options)
        if env.spec is not None:  # nothing that it names may be loaded here
            env.spec = replace(env.spec, entry_point=None, vector_entry_point=None, additional_wrappers=())
        return env
    from paddock.vector.remote import RemoteVectorEnv

    return RemoteVectorEnv(channel, what, _RULES, name=str(channel.address))


def _openenv(plan: Plan, options: RemoteOptions, connection: BlockingConnection | None = None) -> Env[Any, Any]:
    for name, value in (("num_envs", plan.num_envs), ("render_mode", plan.render_mode), *plan.env_kwargs.items()):
        if value is not None:
            raise PlanError(
                f"{name}= can't be used with {plan.target.text!r}: the server speaks OpenEnv's wire, which has no "
                f"place for it. Drop it; arguments of an episode go to reset(options=...)."
            )
    from paddock.sources.openenv_server import OpenEnvServerEnv

    return OpenEnvServerEnv(
        _address(plan, options),
        connect_s=options.connect_s,
        answer_s=options.deadline_s,
        heartbeat_s=options.heartbeat_s,
        context=options.tls(),
        max_bytes=int(options.max_message_size_mb * (1 << 20)),
        connection=connection,
    )


async def build_async(plan: Plan) -> AsyncHostedEnv:
    """Build the same for asyncio, over paddock's own wire only."""
    from paddock.hosting.async_remote_channel import AsyncRemoteChannel
    from paddock.hosting.client import AsyncHostedEnv

    options = plan.remote or RemoteOptions()
    channel = AsyncRemoteChannel(_address(plan, options), **_channel_options(options))
    try:
        await channel.connect()
    except OtherWire as error:
        raise PlanError(
            f"{error} If it is an OpenEnv server, use paddock.openenv.GenericEnvClient in async code, or make() in "
            f"plain code."
        ) from None
    env = await AsyncHostedEnv.make(channel, what_to_make(plan), wall=_RULES)
    env._another = partial(build_async, plan)
    return env


def what_to_make(plan: Plan) -> dict[str, Any]:
    """Write the Make request for a server. What the caller did not ask for is left to the server."""
    lanes = plan.lanes if plan.num_envs is not None else None
    fields = {
        "kwargs": plan.env_kwargs or None,
        "render_mode": plan.render_mode,
        "num_envs": plan.num_envs,
        "autoreset": None if lanes is None else lanes.autoreset.value,
        "on_fault": None if lanes is None else lanes.on_fault,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _address(plan: Plan, options: RemoteOptions) -> RemoteAddress:
    assert plan.target.url is not None
    return parse_address(plan.target.url, token=options.token, insecure=options.insecure)


def _channel_options(options: RemoteOptions) -> dict[str, Any]:
    return {
        "deadline_s": options.deadline_s,
        "patience": Patience(begin_s=options.connect_s, resume_s=options.resume_s),
        "heartbeat_s": options.heartbeat_s,
        "context": options.tls(),
        "on_wait": options.on_wait,
        "wires": (options.wire,) if options.wire in SUBPROTOCOLS else SUBPROTOCOLS,
    }
