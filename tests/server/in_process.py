"""A server in a thread of this process, for tests that look at it from both sides: what a peer sees, what it did."""

import asyncio
import gc
import json
import threading
import time
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

from paddock.server.auth import OriginCheck, Tokens
from paddock.server.http_api import HttpApi
from paddock.server.listener import listen
from paddock.server.served_env import ServedEnv
from paddock.server.service import Service
from paddock.server.settings import Settings
from tests.server.raw_peers import Peer
from tests.server.tool_world import write_shop

SECRET = "hunter2-planted-secret"

MANIFEST = """
[package]
name = "vault"
version = "1.0.0"

[[env]]
id = "Vault-v0"
entry = "vault_env:Vault"

[[env]]
id = "Picky-v0"
entry = "vault_env:Picky"
"""

MODULE = '''
import numpy

import paddock
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple


SECRET = "hunter2-planted-secret"


class Hunter2Error(Exception):
    """An error of its own class, whose text, cause and attributes hold the secret."""


class Vault(paddock.Env):
    """Counts what is done to it. Action 7 raises with the secret in every place an exception has."""

    observation_space = Box(0, 1e9, (1,), dtype="float64")
    action_space = Discrete(8)

    def __init__(self):
        self.secret, self.resets, self.steps = SECRET, 0, 0

    def reset(self, *, seed=None, options=None):
        if options:
            self._fail(options)
        super().reset(seed=seed)
        self.resets += 1
        self.steps = 0
        return self._seen(), {"resets": self.resets}

    def step(self, action):
        if action == 7:
            self._fail(action)
        self.steps += 1
        return self._seen(), float(action), False, False, {"resets": self.resets}

    def render(self):
        self._fail("render")

    def public_state(self):
        if self.steps == 5:
            self._fail("state")
        return {"resets": self.resets, "steps": self.steps}

    def _seen(self):
        return numpy.array([float(self.steps)])

    def _fail(self, what):
        try:
            raise KeyError(self.secret)
        except KeyError as error:
            raise Hunter2Error(f"db password={self.secret} at /home/alice/.secret, doing {what!r}") from error


class Picky(Vault):
    """Counts the actions that are none of its space, which must never get here."""

    action_space = Dict(
        {
            "go": Discrete(3, start=-1),
            "push": Box(-1, 1, (2,), dtype="float32"),
            "say": Text(4, charset="abc"),
            "press": MultiBinary(3),
            "pick": MultiDiscrete([2, 3]),
            "both": Tuple((Discrete(2), Box(0, 255, (2, 2), dtype="uint8"))),
        }
    )

    def __init__(self):
        super().__init__()
        self.wrong = 0

    def step(self, action):
        self.wrong += not self.action_space.contains(action)
        self.steps += 1
        return self._seen(), 0.0, False, False, {"wrong": self.wrong}
'''


def write_vault(folder, id="Vault-v0"):
    """A target: the folder of environments that keep a secret, and one of them."""
    folder.mkdir(exist_ok=True)
    (folder / "paddock.toml").write_text(MANIFEST)
    (folder / "vault_env.py").write_text(MODULE)
    return folder, id


class Watched(ServedEnv):
    """Counts the workers that were asked for: none can be reached without one."""

    started = 0

    def start(self, tenant):
        self.started += 1
        return super().start(tenant)


def _reading_s():
    """Seconds that Python's own reader takes for a certain text now."""
    text, began_s = '["' + '\\"[' * 100_000 + "x" * 2_000_000 + '"]', time.thread_time()
    json.loads(text)
    return time.thread_time() - began_s


class RunningServer:
    """``tokens`` by role, and "expired", "revoked", "other" (another operator) for those who may not."""

    run = staticmethod(asyncio.run)

    def __init__(self, targets, token_file, **settings):
        self.served = [Watched(f"{folder}:{id}") for folder, id in targets]
        self.settings = Settings(**{"port": 0, "spares": 0, "drain_s": 0.5, **settings})
        self.settings.check()
        names = ("operator", "agent", "observer", "other", "expired", "revoked")
        self.tokens = {name: f"{name}-{index}-0123456789abcdef" for index, name in enumerate(names)}
        self.token_file = token_file
        self._write_tokens(with_revoked=True)
        self.known = Tokens.from_file(token_file)
        self._write_tokens(with_revoked=False)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: self.run(self._run()), daemon=True)

    def _write_tokens(self, *, with_revoked):
        roles = {"other": "operator", "expired": "operator", "revoked": "operator"}
        past = (datetime.now(timezone.utc) - timedelta(seconds=1)).isoformat()
        lines = []
        for name, token in self.tokens.items():
            if name != "revoked" or with_revoked:
                lines.append(f"{roles.get(name, name)} {token}{' ' + past if name == 'expired' else ''}\n")
        self.token_file.write_text("".join(lines))

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *problem):
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()

    async def _run(self):
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self.service = Service(self.served, self.settings)
        origin_check = OriginCheck.for_bind(None if self.settings.uds else self.settings.host, self.settings.origins)
        self.api = HttpApi(self.service, origin_check, self.known)
        await self.service.start()
        self.listening = await listen(self.api, self.settings)
        self.port = 0 if self.settings.uds else self.listening.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        self.listening.close()
        await self.service.stop()
        await self.listening.end()

    def peer(self, role="operator", **options):
        """A connection that shows this role's token; None for no token."""
        token = None if role is None else self.tokens[role]
        return Peer(("127.0.0.1", self.port), token=token, **options)

    @contextmanager
    def busy_at_most(self, limit_s, what):
        """What happens meanwhile may take so long of the server's own thread, without the garbage of the tests."""
        gc.disable()
        try:
            began_s = self.cpu_s()
            yield
            took_s = self.cpu_s() - began_s
        finally:
            gc.enable()
        if took_s > limit_s:  # by as much as this machine is slower now than the one that the limits are for
            limit_s *= max(1.0, _reading_s() / 0.006)
        assert took_s <= limit_s, (what[:200], len(what), took_s)

    def cpu_s(self):
        """Seconds of work that the server's own thread has done: who blocks it shows here, however busy the machine."""
        done, found = threading.Event(), []
        self.loop.call_soon_threadsafe(lambda: (found.append(time.thread_time()), done.set()))
        assert done.wait(30), "the server hangs"
        return found[0]

    @property
    def workers_started(self):
        """Since the server was made; one was asked for its description."""
        return sum(one.started for one in self.served)


def vault_server(place, *ids, **settings):
    """One with environments that keep a secret; its files are in ``place``."""
    targets = [write_vault(place / "vault", id) for id in ids or ("Vault-v0",)]
    return RunningServer(targets, place / "tokens", **settings)


def shop_server(place, *ids, **settings):
    """One with environments that have tools."""
    targets = [write_shop(place / "shop", id) for id in ids or ("Shop-v0",)]
    return RunningServer(targets, place / "tokens", **settings)
