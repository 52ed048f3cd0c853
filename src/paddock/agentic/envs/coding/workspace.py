"""Run an agent's program in a workspace of its own, which ends with it. Nothing that comes out of it is trusted.

A failure before the program can begin is the machine's fault, and fails the episode. A failure afterwards is the
program's, and part of the result.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from paddock.agentic.envs.coding import inside
from paddock.errors import EpisodeFailed, PaddockError
from paddock.sandbox.mounts import PythonWorld
from paddock.sandbox.policy import Policy
from paddock.sandbox.workspaces import Workspace, is_walled, workspace
from paddock.spaces.json_data import JsonLimits, NotJson, read_json

Ended: TypeAlias = Literal["exit", "crash", "timeout", "memory", "flood"]

LOG = logging.getLogger("paddock.agentic")
OUTPUT_BYTES = 16_000  # of each output
FLOOD_BYTES = 4 << 20  # of all outputs: a program that writes more is ended
CPU_S = 5.0  # of a program
RUN_S = 10.0  # of a program, which may sleep, or have to wait for a core
START_S = 15.0  # until a workspace is ready, on a busy machine
_PIECE = 1 << 16
_SAID = JsonLimits(FLOOD_BYTES, nesting=60, escapes=1 << 20, pieces=1 << 16, digits=300)  # a message of a program
_ENDINGS: dict[str, Ended] = {"exit": "exit", "memory": "memory", "cpu": "timeout", "timeout": "timeout"}


class Ran(msgspec.Struct, frozen=True):
    """What a program printed, and how it ended; ``exit_code`` is None if it did not say."""

    stdout: str
    stderr: str
    exit_code: int | None
    ended: Ended


def run_program(code: str) -> Ran:
    """Run the code as a script."""
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    try:
        with _workspace("run") as program:
            outputs = _Outputs(program.socket.fileno(), out, err)
            socket.send_fds(program.socket, [b"F"], [to_out, to_err])
            os.close(to_out)
            os.close(to_err)  # only the program holds the writing ends now
            to_out = to_err = -1
            ended = _run_to_end(program, outputs, code.encode("utf-8", "replace"))
    finally:
        for descriptor in (out, err, to_out, to_err):
            if descriptor >= 0:
                os.close(descriptor)
    said = bytes(outputs.head[outputs.link])
    status = int(said) if ended == "exit" and said.isdigit() and len(said) <= 3 else None
    return Ran(outputs.text(out), outputs.text(err), status, ended)


def call_program(code: str, calls: Sequence[Sequence[Any]]) -> tuple[list[bytes], Ended]:
    """Call its ``solve``, and return one line per call, as ``inside`` writes them, and how the program ended."""
    with _workspace("call") as program:
        outputs = _Outputs(program.socket.fileno())
        order = repr((code.encode("utf-8", "replace"), [tuple(one) for one in calls])).encode()
        ended = _run_to_end(program, outputs, order)
    return bytes(outputs.head[outputs.link]).split(b"\n")[:-1], ended


def run_with_tools(code: str, tools: Mapping[str, Callable[..., Any]]) -> tuple[Literal["result", "error"], Any]:
    """Run code that calls these tools by name; return what it assigned to ``result``, or what went wrong.

    The tools are called here, with plain data, and return plain data to the code.
    """
    with _workspace("tools") as program:
        lines = _Lines(program.socket)
        lines.send(repr((code.encode("utf-8", "replace"), list(tools))))
        while (said := lines.receive()) is not None:
            if said[0] != "call":
                return said[0], said[1]
            lines.send(repr(_call_tool(tools, *said[1:])))
        cause = program.close()
    ended = f"it was ended ({_ENDINGS.get(cause, 'crash')})" if lines.in_time else f"it took more than {RUN_S} seconds"
    return "error", f"The code has no result: {ended}."


def _call_tool(tools: Mapping[str, Callable[..., Any]], name: Any, given: Any, named: Any) -> tuple[str, Any]:
    """Return the name of what the tool raised, if it did, and its text; else "" and its result."""
    try:
        return "", json.loads(json.dumps(tools[name](*given, **named), default=_as_plain))
    except Exception as error:
        return type(error).__name__, str(error)


def _as_plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else str(value)


class _Lines:
    """Messages to and from a program, a line each, until its time is over: ``in_time`` tells whether it was."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._by_s, self._read, self.in_time = link, time.monotonic() + RUN_S, bytearray(), True

    def send(self, text: str) -> None:
        unsent = memoryview(text.encode() + b"\n")
        with suppress(OSError):  # it has ended
            while unsent and self._wait(select.POLLOUT):
                unsent = unsent[self._link.send(unsent) :]

    def receive(self) -> list[Any] | None:
        """The next message; None if there is no more, or none that the program should have sent."""
        while b"\n" not in self._read and len(self._read) <= FLOOD_BYTES and self._wait(select.POLLIN):
            piece = _piece(self._link.fileno())
            if not piece:
                return None
            self._read += piece
        line, end, self._read = self._read.partition(b"\n")
        try:
            said = read_json(bytes(line), _SAID) if end else None
        except NotJson:
            return None
        expected = {"call": 4, "result": 2, "error": 2}
        return said if isinstance(said, list) and said and expected.get(str(said[0])) == len(said) else None

    def _wait(self, events: int) -> bool:
        poll = select.poll()
        poll.register(self._link, events)
        self.in_time = bool(poll.poll(max(0.0, self._by_s - time.monotonic()) * 1000))
        return self.in_time


class _Outputs:
    """What a program wrote, by descriptor: the beginning of it, and how much there was. ``link`` is its socket."""

    def __init__(self, link: int, *pipes: int) -> None:
        self.link = link
        self.head = {descriptor: bytearray() for descriptor in (*pipes, link)}
        self.read = dict.fromkeys(self.head, 0)

    def add(self, descriptor: int, piece: bytes) -> None:
        head = self.head[descriptor]
        self.read[descriptor] += len(piece)
        head += piece[: OUTPUT_BYTES - len(head)]

    @property
    def flooded(self) -> bool:
        return sum(self.read.values()) > FLOOD_BYTES

    def text(self, descriptor: int) -> str:
        head, more = self.head[descriptor], self.read[descriptor] - len(self.head[descriptor])
        text = head.decode("utf-8", "replace")
        return f"{text}\n[{more} more bytes]" if more else text


@contextmanager
def _workspace(what: str) -> Iterator[Workspace]:
    """Start a workspace whose program waits for its orders."""
    argv = [python(), "-I", "-S", "-u", "-c", _program(), what]
    try:
        # Behind a wall the grant decides; here this process is the one that grants.
        started = workspace(argv, None if is_walled() else replace(workspace_policy(), tier="auto"))
    except (PaddockError, OSError) as error:
        LOG.warning("no workspace could be started", exc_info=error)
        raise EpisodeFailed(f"No workspace could be started: {error}") from error
    with started:
        started.socket.settimeout(START_S)
        try:
            ready = started.socket.recv(1) == inside.READY
        except OSError:
            ready = False
        if not ready:
            raise EpisodeFailed("The workspace did not start.")
        started.socket.setblocking(False)
        yield started


def _run_to_end(program: Workspace, outputs: _Outputs, order: bytes) -> Ended:
    """Send the order, read until the program ends, and return how it ended."""
    in_time = _read_all(program.socket, outputs, order)
    cause = program.close()
    if outputs.flooded:
        return "flood"
    return _ENDINGS.get(cause, "crash") if in_time else "timeout"


def _read_all(link: socket.socket, outputs: _Outputs, order: bytes) -> bool:
    """Read all outputs, and return whether they ended in time."""
    by_s, unsent = time.monotonic() + RUN_S, memoryview(order)
    poll = select.poll()
    for descriptor in outputs.head:
        poll.register(descriptor, select.POLLIN)
    poll.register(link, select.POLLIN | select.POLLOUT)
    open_count = len(outputs.head)
    while open_count and not outputs.flooded:
        ready = poll.poll(max(0.0, by_s - time.monotonic()) * 1000)
        if not ready:
            return False
        for descriptor, events in ready:
            if descriptor == outputs.link and events & select.POLLOUT:
                unsent = _send_some(link, unsent)
                if not unsent:
                    poll.modify(link, select.POLLIN)
                events &= ~select.POLLOUT
            if not events:
                continue
            piece = _piece(descriptor)
            if piece:
                outputs.add(descriptor, piece)
            elif piece is not None:
                poll.unregister(descriptor)
                open_count -= 1
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


def policy() -> Policy:
    """Return what PythonCode may do behind a wall: compute, and ask for workspaces. paddock grants it to its own code.

    Two workspaces, because one may still be ending when the next begins.
    """
    return Policy(workspaces=2, workspace=workspace_policy(), reward_range=(0.0, 1.0))


def workspace_policy() -> Policy:
    """Return what a workspace may do: one Python process, with a little scratch and no network or other files."""
    return Policy(
        programs=(python(),),
        processes=1,
        threads=16,
        memory_mb=512,
        scratch_mb=16,
        cpu_s=CPU_S,
        call_s=START_S + RUN_S + 2.0,
        descriptors=64,
        output_kb=4,
    )


@lru_cache(maxsize=1)
def python() -> str:
    """Return the path of the interpreter, which every wall shows anyway."""
    return PythonWorld.here().executable
