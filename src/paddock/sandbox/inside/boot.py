"""The first code of a worker: read the order, put up the wall, and only then call or execute what it names.

Until the wall stands, nothing is imported but a little of the standard library and this package.
"""

from __future__ import annotations

import os
import sys

from paddock.sandbox.inside import NO_WALL, WALL_UP, LockFailed, report_failure
from paddock.sandbox.inside.lock import lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

NOT_RUN, NOT_FOUND = 126, 127  # as shells say it
CONTROL = 3  # the socket to the launcher


def main() -> None:
    """Carry out the order that comes from the descriptor that the first argument names."""
    carry_out(int(sys.argv[1]))


def carry_out(launcher: int, *, template: int | None = None) -> None:
    """Read the order from the socket ``launcher`` and do what it says. ``template``: the process that forked this one.

    A fork of the template has the whole of paddock imported already, and has a pid namespace if it is to have one.
    """
    try:
        pieces = []
        while piece := os.read(launcher, 1 << 16):
            pieces.append(piece)
        order = _parse_json(b"".join(pieces).decode())
        then, guardian = order["then"], order.get("die_with")
        if order.get("native") is not None:
            from paddock.sandbox.inside.namespaces import enter, enter_as_init

            enter(order["native"]) if template is None else enter_as_init(order["native"])
        if order.get("limit_scratch") is not None:
            from paddock.sandbox.inside.root import limit_scratch

            limit_scratch(order["limit_scratch"])
        if order.get("listen") is not None:
            _listen(order["listen"])
        try:  # noqa: SIM105 - contextlib takes longer to import than the wall to put up
            # Do not interrupt the process that wakes this one: it may have others to wake. Once locked, it is too late.
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        except OSError:
            pass  # a matter of speed only
        alone = order.get("native") is None  # in no pid namespace, whose end would be this one's too
        lock({**order["lock"], "death_signal": guardian is not None or (template is not None and alone)})
        if template is not None and alone and os.getppid() != template:
            _end("the template is gone", NO_WALL)
        if guardian is not None:
            # End if the launcher, which alone holds the other end, was gone before the death signal was set.
            os.set_blocking(guardian, False)
            try:
                os.read(guardian, 1)
            except BlockingIOError:
                os.close(guardian)
            else:
                _end("the process that started this one is gone", NO_WALL)
    except Exception as error:  # whatever went wrong, there is no wall
        report_failure(error)
        sys.exit(NO_WALL)
    try:
        os.write(launcher, WALL_UP)
    except OSError:
        pass  # nobody listens, as in tests that give the order in a pipe
    finally:
        os.close(launcher)  # what runs now must not be able to write to it
    del order, pieces  # the environment's code could read them in this frame
    if "exec" in then:
        _execute(then["exec"], then.get("env", {}))
    _call(then, forked=template is not None)


def _parse_json(text: str) -> Any:
    try:
        # json itself imports re: more time than the wall takes. This is the part of it that is written in C.
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)
    settings: Any = _Plain
    return make_scanner(settings)(text, 0)[0]


class _Plain:
    """The settings that json's scanner expects: plain JSON, without extensions."""

    strict = True
    object_hook = object_pairs_hook = parse_constant = None
    parse_float, parse_int = float, int
    memo: dict[str, str] = {}


def _listen(port: int) -> None:
    """Make a listener in this network namespace and hand it to the launcher, which alone will accept."""
    import socket

    with socket.socket() as listener, socket.socket(fileno=os.dup(CONTROL)) as control:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        socket.send_fds(control, [b"L"], [listener.fileno()])


def _execute(argv: list[str], env: Mapping[str, str]) -> NoReturn:
    try:
        os.execve(argv[0], argv, env)  # noqa: S606 - no shell is what we want
    except OSError as error:
        _end(f"{argv[0]!r} could not be run: {error}", NOT_FOUND if error.errno == 2 else NOT_RUN)


def _call(then: Mapping[str, Any], *, forked: bool) -> None:
    from importlib import import_module

    from paddock.sandbox.inside.finder import NamedModules

    try:
        finder = NamedModules(then.get("modules", {}), paddock=sys.modules["paddock"].__path__[0])
    except LockFailed as error:
        _end(str(error), NO_WALL)
    # The boot line's bare packages: from here on paddock is the whole of it. In a fork it is already, but modules of
    # the environment's names may be others.
    stale = [name for name in (then.get("modules", {}) if forked else ["paddock"]) if name in sys.modules]
    if stale:  # seldom in a fork, where touching every name would copy a page for most of them
        for name in [name for name in sys.modules if name.partition(".")[0] in stale]:
            del sys.modules[name]
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
