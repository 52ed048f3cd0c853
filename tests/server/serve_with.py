"""A server as ``paddock serve`` runs it, with settings that it has no options for. For ``serving``."""

import json
import random
import signal
import sys
import time
from pathlib import Path

from paddock.sandbox.policy import Policy
from paddock.server.auth import Tokens
from paddock.server.listener import run
from paddock.server.served_env import ServedEnv
from paddock.server.settings import Settings


def main(targets, token_file, policy, settings, jumps):
    if jumps is not None:
        inject_clock(random.Random(jumps))
    tokens = Tokens.from_file(Path(token_file))
    for name in ("journal", "uds", "tls_cert", "tls_key"):
        if name in settings:
            settings[name] = Path(settings[name])
    isolation = Policy(**policy) if policy else None
    found = [ServedEnv(one, isolation, deadline_s=settings.get("deadline_s")) for one in targets]
    run(found, Settings(**{"port": 0, **settings}), tokens, when_ready=ready)


def inject_clock(chance):
    """At each SIGUSR2 the clock jumps ahead, by less than a request's deadline, and the calendar either way."""
    monotonic, calendar, ahead_s = time.monotonic, time.time, [0.0, 0.0]

    def jump(*_):
        ahead_s[0] += chance.uniform(0.0, 25.0)
        ahead_s[1] += chance.uniform(-7200.0, 7200.0)

    time.monotonic = lambda: monotonic() + ahead_s[0]
    time.time = lambda: calendar() + ahead_s[1]
    signal.signal(signal.SIGUSR2, jump)


def ready(addresses):
    print(f"serving on http://{addresses[0][0]}:{addresses[0][1]}", flush=True)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
