"""The distances at which an environment may run. A new one joins the suite with one line in TIERS."""

import socket
import subprocess
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import paddock
from paddock.errors import ClosedEnvironmentError, NotTransferable, WorkerLost
from paddock.hosting.client import HostedEnv
from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.factories import dumps, loads
from paddock.hosting.failures import to_failed
from paddock.hosting.host import Host
from paddock.hosting.judge import WallRules
from paddock.hosting.launch import Child, start_by, start_fresh
from paddock.hosting.messages import Close
from paddock.hosting.process_channel import ProcessChannel
from paddock.hosting.remote_address import parse_address
from paddock.hosting.remote_channel import RemoteChannel
from paddock.sandbox.policy import CONTAINERS
from paddock.vector import SyncVectorEnv
from paddock.vector.processes import AsyncVectorEnv, ProcessVectorEnv
from paddock.vector.threads import ThreadVectorEnv
from tests.conformance.envs import counting
from tests.conformance.one_lane import OneLane, beside_idle
from tests.conformance.remote_server import SuiteServer
from tests.conformance.sandboxed import start_sandboxed
from tests.engines import need

fork = start_by("fork")
LANE = 2  # under test; in two workers it is the second one of the second


@dataclass(frozen=True)
class Tier:
    """``open(factory)`` gives the environment that the factory makes, at this distance.

    ``far``: values cross as bytes. ``hosted``: a Host answers, so errors are paddock's. ``lanes``: one of several.
    ``walled``: nothing of what comes from there is believed.
    """

    name: str
    open: Callable[..., Any]
    far: bool = False
    hosted: bool = False
    lanes: bool = False
    walled: bool = False

    def __str__(self):
        return self.name


def _build(what):
    return what["factory"]()


class DirectChannel:
    """To a Host in this process: ``recv`` carries the request out."""

    def __init__(self, host):
        self.host, self._sent, self._closed = host, deque(), False

    def send(self, request):
        if self._closed:
            raise ClosedEnvironmentError("This channel is closed. Make the environment again.")
        self._sent.append(request)

    def recv(self, timeout=None):
        return _with_own_rows(self.host.handle(_with_own_rows(self._sent.popleft())))

    def kill(self, reason=None, *, cause=None):
        self.close()
        return WorkerLost(reason or "ended", cause=cause)

    def close(self):
        if not self._closed:
            self._closed = True
            self.host.handle(Close())


def _with_own_rows(message):
    """The far end's rows are its own, as if they had crossed."""
    rows = getattr(message, "rows", None)
    return message if rows is None else msgspec.structs.replace(message, rows=bytearray(rows))


def _here(factory, spaces=None):
    return factory()


def _direct(factory, spaces=None):
    return HostedEnv(DirectChannel(Host(_build)), {"factory": factory}, spaces=spaces)


class CodecChannel(DirectChannel):
    """As direct, but every message becomes bytes and a message again."""

    def recv(self, timeout=None):
        request = self._sent.popleft()
        request = _passed(request, pickler=dumps)
        reply = self.host.handle(request)
        try:
            return _passed(reply, answers=request)
        except NotTransferable as error:
            return _passed(to_failed(error))


def _passed(message, **options):
    frame = b"".join(encode(message, 7, **options))
    number, back = decode_frame(frame, unpickler=loads if "pickler" in options else None)
    assert number == 7
    return back


def _codec(factory, spaces=None):
    return HostedEnv(CodecChannel(Host(_build)), {"factory": factory}, spaces=spaces)


def _in_process(launcher):
    def open_there(factory, spaces=None):
        return HostedEnv(_process_channel(launcher), {"factory": factory}, spaces=spaces)

    return open_there


class KeptChannel:
    """One worker process for many environments, one after the other: starting one each would take minutes."""

    def __init__(self, open_channel):
        self._open, self._channel = open_channel, None

    def send(self, request):
        if self._channel is None:
            self._channel = self._open()
        self._channel.send(request)

    def recv(self, timeout=None):
        return self._channel.recv(timeout)

    def kill(self, reason=None, *, cause=None):
        channel, self._channel = self._channel, None
        return channel.kill(reason, cause=cause)

    def close(self):
        if self._channel is not None:
            self.send(Close(0))
            self.recv()

    def end(self):
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def _process_channel(launcher):
    return ProcessChannel(*launcher(), pickler=dumps)


SERVER = SuiteServer()


def _walled_channel(tier):
    return ProcessChannel(*start_sandboxed(tier), WallRules())


def _contained(tier):
    def open_there(factory, spaces=None):
        need(tier)  # and one container for all of them: starting one each would take minutes
        return HostedEnv(KEPT[tier], named(factory), spaces=spaces, wall=WallRules())

    return open_there


def _remote_channel():
    return RemoteChannel(parse_address(SERVER.url))


KEPT = {
    "process": KeptChannel(partial(_process_channel, start_fresh)),
    "forked": KeptChannel(partial(_process_channel, fork)),
    "remote": KeptChannel(_remote_channel),
    **{tier: KeptChannel(partial(_walled_channel, tier)) for tier in CONTAINERS},
}


def reopen(tier, factory, spaces=None):
    """As ``tier.open``, but in a worker process that earlier environments may have used."""
    if tier.name not in KEPT or tier.name in CONTAINERS:
        return tier.open(factory, spaces=spaces)
    what, wall = (named(factory), WallRules(server=True)) if tier.walled else ({"factory": factory}, None)
    return HostedEnv(KEPT[tier.name], what, spaces=spaces, wall=wall)


def named(factory):
    """A factory as data."""
    made = factory if isinstance(factory, partial) else partial(factory)
    what = {"module": made.func.__module__, "name": made.func.__qualname__}
    return {**what, "args": list(made.args), "kwargs": dict(made.keywords)}


def _sandbox(factory, spaces=None):
    return HostedEnv(_walled_channel("sandbox"), named(factory), spaces=spaces, wall=WallRules())


def _remote(factory, spaces=None):
    return HostedEnv(_remote_channel(), named(factory), spaces=spaces, wall=WallRules(server=True))


def _loop(factory, spaces=None):
    return OneLane(SyncVectorEnv(beside_idle(factory, LANE), autoreset_mode="Disabled"), LANE)


def _threads(factory, spaces=None):
    return OneLane(ThreadVectorEnv(beside_idle(factory, LANE), autoreset_mode="Disabled", threads=2), LANE)


def _processes(factory, spaces=None):
    # Three lanes in two workers: 0, then 1 and 2.
    lanes = ProcessVectorEnv(beside_idle(factory, LANE), workers=2, autoreset_mode="Disabled", launcher=fork)
    return OneLane(lanes, LANE)


def _async(factory, spaces=None):
    return OneLane(AsyncVectorEnv(beside_idle(factory, LANE), autoreset_mode="Disabled", context="fork"), LANE)


def start_perl():
    """The worker that is not Python, with its socket."""
    near, far = socket.socketpair()
    lifeline, watched = socket.socketpair()
    program = Path(__file__).with_name("echo_worker.pl")
    with far, watched:
        process = subprocess.Popen(
            ["perl", program, str(far.fileno())], pass_fds=[far.fileno()], start_new_session=True
        )
    return near, Child(process, lifeline)


def _perl(factory, spaces=None):
    assert factory.func is counting, "the Perl worker plays this environment only"
    return HostedEnv(ProcessChannel(*start_perl()), dict(factory.keywords))


TIERS = [
    Tier("here", _here),
    Tier("direct", _direct, hosted=True),
    Tier("codec", _codec, far=True, hosted=True),
    Tier("process", _in_process(start_fresh), far=True, hosted=True),
    Tier("forked", _in_process(fork), far=True, hosted=True),
    Tier("sandbox", _sandbox, far=True, hosted=True, walled=True),
    Tier("remote", _remote, far=True, hosted=True, walled=True),
    *[Tier(name, _contained(name), far=True, hosted=True, walled=True) for name in CONTAINERS],
    Tier("loop", _loop, lanes=True),
    Tier("threads", _threads, lanes=True),
    Tier("processes", _processes, far=True, hosted=True, lanes=True),
    Tier("async", _async, far=True, hosted=True, lanes=True),
]
PERL = Tier("perl", _perl, far=True, hosted=True)

every_tier = pytest.mark.parametrize("tier", TIERS, ids=str)
every_tier_and_perl = pytest.mark.parametrize("tier", [*TIERS, PERL], ids=str)
hosted_tiers = pytest.mark.parametrize("tier", [tier for tier in TIERS if tier.hosted], ids=str)
hosted_tiers_and_perl = pytest.mark.parametrize("tier", [*(tier for tier in TIERS if tier.hosted), PERL], ids=str)
walled_tiers = pytest.mark.parametrize("tier", [tier for tier in TIERS if tier.walled], ids=str)
far_tiers = pytest.mark.parametrize("tier", [tier for tier in TIERS if tier.far], ids=str)


def state_of(env):
    """The state, also of a bare environment, which has no method for it."""
    return env.state() if isinstance(env, (OneLane, HostedEnv)) else paddock.state(env)


def call(env, name, *args, **kwargs):
    """Call a method of the environment."""
    if isinstance(env, OneLane):
        return env.call(name, *args, **kwargs)
    return env.get_wrapper_attr(name)(*args, **kwargs)
