"""The first code of a worker: read what is wanted, put up the wall, and only then call or execute what was named.

Until the wall stands, nothing is imported but a little of the standard library and this package.
"""

from __future__ import annotations

import os
import sys

from paddock.sandbox.inside.failed import NO_WALL, WALL_UP, LockFailed, tell
from paddock.sandbox.inside.lock import lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

NOT_RUN, NOT_FOUND = 126, 127  # as shells say it
CONTROL = 3  # the socket to the launcher


def main() -> None:
    """Read the order from the descriptor that the first argument names, and carry it out."""
    try:
        launcher = int(sys.argv[1])
        order = _order(launcher)
        then = order["then"]
        if order.get("native") is not None:
            from paddock.sandbox.inside.namespaces import enter

            enter(order["native"])
        if order.get("limit_scratch") is not None:
            from paddock.sandbox.inside.mounts import limit_scratch

            limit_scratch(order["limit_scratch"])
        if order.get("listen") is not None:
            _listen(order["listen"])
        _let_others_finish()
        guardian = order.get("die_with")
        lock({**order["lock"], "death_signal": guardian is not None})
        if guardian is not None:
            _check_guardian(guardian)
    except Exception as error:  # whatever went wrong, there is no wall
        tell(error)
        sys.exit(NO_WALL)
    _say_that_it_stands(launcher)
    if "exec" in then:
        _execute(then["exec"], then.get("env", {}))
    _call(then)


def _let_others_finish() -> None:
    """Do not interrupt whoever wakes this process: it may have others to wake. Once locked, this can't be said."""
    try:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except OSError:
        return  # a matter of speed only


def _order(descriptor: int) -> Any:
    pieces = []
    while piece := os.read(descriptor, 1 << 16):
        pieces.append(piece)
    return _json(b"".join(pieces).decode())


def _say_that_it_stands(descriptor: int) -> None:
    """Where the order came from. Closed then: what runs now must have no say in it."""
    try:
        os.write(descriptor, WALL_UP)
    except OSError:
        return  # nobody listens, as in tests that give the order in a pipe
    finally:
        os.close(descriptor)


def _json(text: str) -> Any:
    try:
        # json itself imports re: more time than the wall takes. This is the part of it that is written in C.
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)
    settings: Any = _Plain
    return make_scanner(settings)(text, 0)[0]


class _Plain:
    """The settings that json's scanner wants to see: JSON as it is, nothing extended."""

    strict = True
    object_hook = object_pairs_hook = parse_constant = None
    parse_float, parse_int = float, int
    memo: dict[str, str] = {}


def _listen(port: int) -> None:
    """A listener of this network namespace, made here and handed to the launcher, who alone will accept."""
    import socket

    with socket.socket() as listener, socket.socket(fileno=os.dup(CONTROL)) as control:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        socket.send_fds(control, [b"L"], [listener.fileno()])


def _check_guardian(descriptor: int) -> None:
    """End if the launcher, who alone holds the other end, was gone before the death signal was set."""
    os.set_blocking(descriptor, False)
    try:
        os.read(descriptor, 1)
    except BlockingIOError:
        os.close(descriptor)
    else:
        _end("the process that started this one is gone", NO_WALL)


def _execute(argv: list[str], env: Mapping[str, str]) -> NoReturn:
    try:
        os.execve(argv[0], argv, env)  # noqa: S606 - no shell is what we want
    except OSError as error:
        _end(f"{argv[0]!r} could not be run: {error}", NOT_FOUND if error.errno == 2 else NOT_RUN)


def _call(then: Mapping[str, Any]) -> None:
    from importlib import import_module

    from paddock.sandbox.inside.finder import NamedModules

    try:
        finder = NamedModules(then.get("modules", {}), paddock=sys.modules["paddock"].__path__[0])
    except LockFailed as error:
        _end(str(error), NO_WALL)
    for name in [name for name in sys.modules if name.partition(".")[0] == "paddock"]:
        del sys.modules[name]  # the boot line's bare packages: from here on paddock is the whole of it
    if "env" in then:
        os.environ.clear()
        os.environ.update(then["env"])
    sys.path[:] = then["path"]
    sys.meta_path.insert(0, finder)
    entry, _, function = then["call"].partition(":")
    sys.argv[:] = [then["call"]]
    getattr(import_module(entry), function)(*then.get("args", ()))


def _end(text: str, code: int) -> NoReturn:
    os.write(2, f"paddock: {text}\n".encode(errors="backslashreplace"))
    sys.exit(code)
