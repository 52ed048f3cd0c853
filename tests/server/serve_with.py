"""A server as ``paddock serve`` runs it, with settings that it has no options for. For ``serving``."""

import json
import sys
from pathlib import Path

from paddock.sandbox.policy import Policy
from paddock.server.principals import Tokens
from paddock.server.run import run
from paddock.server.served import Served
from paddock.server.settings import Settings


def main(targets, token_file, policy, settings):
    tokens = Tokens.from_file(Path(token_file))
    for name in ("journal", "uds"):
        if name in settings:
            settings[name] = Path(settings[name])
    isolation = Policy(**policy) if policy else None
    found = [Served(one, isolation, deadline_s=settings.get("deadline_s")) for one in targets]
    run(found, Settings(**{"port": 0, **settings}), tokens, when_ready=ready)


def ready(addresses):
    print(f"serving on http://{addresses[0][0]}:{addresses[0][1]}", flush=True)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
