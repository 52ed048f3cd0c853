"""Behind some layers of the wall: make one attempt of the catalogue's, and say on the socket how it went."""

import importlib
import json
import socket


def main(target, told):
    module, _, name = target.partition(":")
    attacks = importlib.import_module(f"paddock.bench.hostile.attacks.{module}")
    from paddock.bench.hostile.attacks.attempt import run_attempt

    with socket.socket(fileno=3) as near:
        near.sendall(json.dumps(run_attempt(getattr(attacks, name)(**told).attempt)).encode())
