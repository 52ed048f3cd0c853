"""Run an agent's program in a workspace of its own, which ends with it. Nothing that comes out of there is believed.

What goes wrong before the program can begin is the machine's fault, and fails the episode. What goes wrong afterwards
is the program's, and is part of the result.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from paddock.agentic.envs.coding import inside
from paddock.agentic.envs.coding.permissions import RUN_S, START_S, python, workspace_policy
from paddock.errors import EpisodeFailed, PaddockError
from paddock.sandbox.workspaces import Workspace, is_walled, workspace

Ended: TypeAlias = Literal["exit", "crash", "timeout", "memory", "flood"]

LOG = logging.getLogger("paddock.agentic")
KEPT_BYTES = 16_000  # of each output
FLOOD_BYTES = 4 << 20  # of all outputs: who writes more is ended
_PIECE = 1 << 16
_ENDINGS: dict[str, Ended] = {"exit": "exit", "memory": "memory", "cpu": "timeout", "timeout": "timeout"}


class Ran(msgspec.Struct, frozen=True):
    """What a program printed, and how it ended; ``exit_code`` is None if it did not say."""

    stdout: str
    stderr: str
    exit_code: int | None
    ended: Ended


def run_program(code: str) -> Ran:
    """Run it as a script."""
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    outputs = _Outputs((out, err))
    try:
        with _workspace("run") as begun:
            socket.send_fds(begun.socket, [b"F"], [to_out, to_err])
            os.close(to_out)
            os.close(to_err)  # the program's ends are to be the last ones
            to_out = to_err = -1
            ended = _ended(begun, outputs, code.encode("utf-8", "replace"))
    finally:
        for descriptor in (out, err, to_out, to_err):
            if descriptor >= 0:
                os.close(descriptor)
    said = bytes(outputs.kept[begun.link])
    status = int(said) if ended == "exit" and said.isdigit() and len(said) <= 3 else None
    return Ran(outputs.text(out), outputs.text(err), status, ended)


def call_program(code: str, calls: Sequence[Sequence[Any]]) -> tuple[list[bytes], Ended]:
    """The lines that came for calls of its ``solve``: see ``inside`` for what they should be."""
    outputs = _Outputs(())
    with _workspace("call") as begun:
        order = repr((code.encode("utf-8", "replace"), [tuple(one) for one in calls])).encode()
        ended = _ended(begun, outputs, order)
    return bytes(outputs.kept[begun.link]).split(b"\n")[:-1], ended


class _Begun:
    """A workspace whose program waits for what it is to do."""

    def __init__(self, started: Workspace) -> None:
        self._started, self.socket, self.link = started, started.socket, started.socket.fileno()

    def end(self) -> str:
        return self._started.close()


class _Outputs:
    """What was read, by descriptor: the beginning of it, and how much there was."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        self.kept = {descriptor: bytearray() for descriptor in descriptors}
        self.read = dict.fromkeys(descriptors, 0)

    def add(self, descriptor: int, piece: bytes) -> None:
        kept = self.kept[descriptor]
        self.read[descriptor] += len(piece)
        kept += piece[: KEPT_BYTES - len(kept)]

    @property
    def flooded(self) -> bool:
        return sum(self.read.values()) > FLOOD_BYTES

    def text(self, descriptor: int) -> str:
        kept, more = self.kept[descriptor], self.read[descriptor] - len(self.kept[descriptor])
        text = kept.decode("utf-8", "replace")
        return f"{text}\n[{more} more bytes]" if more else text


@contextmanager
def _workspace(what: str) -> Iterator[_Begun]:
    argv = [python(), "-I", "-S", "-u", "-c", _program(), what]
    try:
        # Behind a wall the grant says all; here this process grants it.
        started = workspace(argv, None if is_walled() else replace(workspace_policy(), tier="auto"))
    except (PaddockError, OSError) as error:
        LOG.warning("no workspace could be started", exc_info=error)
        raise EpisodeFailed(f"No workspace could be started: {error}") from error
    with started:
        started.socket.settimeout(START_S)
        try:
            stands = started.socket.recv(1) == inside.READY
        except OSError:
            stands = False
        if not stands:
            raise EpisodeFailed("The workspace did not start.")
        started.socket.setblocking(False)
        yield _Begun(started)


def _ended(begun: _Begun, outputs: _Outputs, order: bytes) -> Ended:
    """Give the order, read until the program ends, and say how it did."""
    outputs.kept[begun.link], outputs.read[begun.link] = bytearray(), 0
    in_time = _read_all(begun, outputs, order)
    cause = begun.end()
    if outputs.flooded:
        return "flood"
    return _ENDINGS.get(cause, "crash") if in_time else "timeout"


def _read_all(begun: _Begun, outputs: _Outputs, order: bytes) -> bool:
    """Whether everything was read to its end in time."""
    ends_s, unsent = time.monotonic() + RUN_S, memoryview(order)
    poll = select.poll()
    for descriptor in outputs.kept:
        poll.register(descriptor, select.POLLIN)
    poll.register(begun.link, select.POLLIN | select.POLLOUT)
    open_ones = len(outputs.kept)
    while open_ones and not outputs.flooded:
        ready = poll.poll(max(0.0, ends_s - time.monotonic()) * 1000)
        if not ready:
            return False
        for descriptor, events in ready:
            if descriptor == begun.link and events & select.POLLOUT:
                unsent = _send_some(begun.socket, unsent)
                if not unsent:
                    poll.modify(begun.link, select.POLLIN)
                events &= ~select.POLLOUT
            if not events:
                continue
            piece = _piece(descriptor)
            if piece:
                outputs.add(descriptor, piece)
            elif piece is not None:
                poll.unregister(descriptor)
                open_ones -= 1
    return True


def _send_some(link: socket.socket, unsent: memoryview) -> memoryview:
    try:
        unsent = unsent[link.send(unsent) :]
    except BlockingIOError:
        return unsent
    except OSError:  # it has ended
        return unsent[:0]
    if not unsent:
        with suppress(OSError):
            link.shutdown(socket.SHUT_WR)
    return unsent


def _piece(descriptor: int) -> bytes | None:
    """What can be read now; empty at the end, None if there is nothing yet."""
    try:
        return os.read(descriptor, _PIECE)
    except BlockingIOError:
        return None
    except OSError:
        return b""


@lru_cache(maxsize=1)
def _program() -> str:
    return Path(inside.__file__).read_text(encoding="utf-8")
