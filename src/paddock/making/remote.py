"""Environments of servers: connect, make, and dress what comes of it. The far end is believed nothing.

Which wire is spoken the server decides by the websocket's subprotocol; an environment says by which one it came.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paddock.core.env import Env
from paddock.core.vector_env import VectorEnv
from paddock.errors import PlanError
from paddock.hosting.client import HostedEnv
from paddock.hosting.remote_address import RemoteAddress, parse_address
from paddock.hosting.remote_channel import RemoteChannel
from paddock.hosting.remote_refusal import OtherWire
from paddock.hosting.resuming import Patience
from paddock.hosting.wall_rules import WallRules
from paddock.making.plan import Plan
from paddock.making.remote_options import RemoteOptions

if TYPE_CHECKING:
    from paddock.hosting.async_client import AsyncHostedEnv

_RULES = WallRules(server=True)


class RemoteEnv(HostedEnv):
    """An environment at a server, by paddock's own wire."""

    @property
    def address(self) -> str:
        """Where it is, without the token."""
        return str(self._channel.address)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"RemoteEnv({self.address}, wire paddock.v1)"


def build_remote(plan: Plan) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """What a plan for a URL describes."""
    options = plan.remote or RemoteOptions()
    if options.wire != "openenv":
        try:
            return _native(plan, options)
        except OtherWire as error:
            if options.wire == "paddock.v1":
                raise PlanError(
                    f"{error} Is it an OpenEnv server? RemoteOptions(wire='auto') speaks to those."
                ) from None
    return _openenv(plan, options)


def _native(plan: Plan, options: RemoteOptions) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    channel = RemoteChannel(_address(plan, options), **_ways(options))
    what = what_to_make(plan)
    if plan.num_envs is None:
        env = RemoteEnv(channel, what, wall=_RULES)
        if env.spec is not None:  # nothing that it names is to be loaded here
            env.spec = replace(env.spec, entry_point=None, vector_entry_point=None, additional_wrappers=())
        return env
    from paddock.vector.remote import RemoteVectorEnv

    return RemoteVectorEnv(channel, what, _RULES, name=str(channel.address))


def _openenv(plan: Plan, options: RemoteOptions) -> Env[Any, Any]:
    for name, wish in (("num_envs", plan.num_envs), ("render_mode", plan.render_mode), *plan.env_kwargs.items()):
        if wish is not None:
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
    )


async def build_async(plan: Plan) -> AsyncHostedEnv:
    """The same for asyncio, by paddock's own wire alone."""
    from paddock.hosting.async_client import AsyncHostedEnv
    from paddock.hosting.async_remote_channel import AsyncRemoteChannel

    options = plan.remote or RemoteOptions()
    channel = AsyncRemoteChannel(_address(plan, options), **_ways(options))
    try:
        await channel.connect()
    except OtherWire as error:
        raise PlanError(
            f"{error} Is it an OpenEnv server? paddock.openenv.GenericEnvClient speaks to those in async code, and "
            f"make() in plain code."
        ) from None
    return await AsyncHostedEnv.make(channel, what_to_make(plan), wall=_RULES)


def what_to_make(plan: Plan) -> dict[str, Any]:
    """The Make request, as a server takes it. What was not asked for is left to the server."""
    lanes = plan.lanes if plan.num_envs is not None else None
    asked = {
        "kwargs": plan.env_kwargs or None,
        "render_mode": plan.render_mode,
        "num_envs": plan.num_envs,
        "autoreset": None if lanes is None else lanes.autoreset.value,
        "on_fault": None if lanes is None else lanes.on_fault,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _address(plan: Plan, options: RemoteOptions) -> RemoteAddress:
    assert plan.target.url is not None
    return parse_address(plan.target.url, token=options.token, insecure=options.insecure)


def _ways(options: RemoteOptions) -> dict[str, Any]:
    return {
        "deadline_s": options.deadline_s,
        "patience": Patience(begin_s=options.connect_s, resume_s=options.resume_s),
        "heartbeat_s": options.heartbeat_s,
        "context": options.tls(),
        "on_wait": options.on_wait,
    }
