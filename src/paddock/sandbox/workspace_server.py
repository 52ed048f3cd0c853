"""The workspaces of one environment, started by the trusted side on its behalf and ended with it."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from array import array
from contextlib import suppress
from typing import Any

from paddock.errors import NotPermitted, PaddockError
from paddock.sandbox.child import Child
from paddock.sandbox.launching import launch
from paddock.sandbox.mounts import check_paths, find_escapes, writable_paths
from paddock.sandbox.plan import Exec
from paddock.sandbox.policy import Policy, find_excess
from paddock.sandbox.workspaces import NONE_GRANTED, PACKET_BYTES

_JOIN_S = 20.0  # for one that is just being started, and the end of all
_CLOSED_S = 0.05  # how long a program that has closed its socket may take to end by itself


class Workspaces:
    """What ``policy`` lets an environment start. A workspace's whole life is one call: ``call_s`` ends it."""

    def __init__(self, policy: Policy, tenant: str = "") -> None:
        self._most, self._granted, self._tenant = policy.workspaces, policy.workspace, tenant
        self._writable = writable_paths(policy)  # by the environment, or by any workspace before this one
        self.running: dict[int, tuple[Child, float]] = {}  # with the time of its end, by time.monotonic
        self._overdue: set[int] = set()
        self._last = 0

    def start(self, argv: list[str], request: Policy | None) -> tuple[socket.socket, int]:
        """Start one; return the socket to it and its number. NotPermitted if the policy does not allow it."""
        policy = self._check_request(request)
        near, far = socket.socketpair()
        try:
            child = launch(Exec(tuple(argv), stdio=True), policy, socket_fd=far.fileno(), tenant=self._tenant)
        except BaseException:
            near.close()
            raise
        finally:
            far.close()
        if policy.hosts:
            from paddock.sandbox.proxy import start_proxy  # here: few need it, and asyncio with it

            # The listener is the first thing to come, before the program runs: it must not reach the environment.
            try:
                child.companions += start_proxy(near, policy)
            except BaseException:
                near.close()
                child.kill()
                raise
        self._last += 1
        self.running[self._last] = child, time.monotonic() + policy.call_s
        return near, self._last

    def _check_request(self, request: Policy | None) -> Policy:
        if self._granted is None or not self._most:
            raise NotPermitted(NONE_GRANTED)
        if len(self.running) >= self._most:
            raise NotPermitted(f"{self._most} workspaces run already, and the policy grants no more (workspaces).")
        chosen = request or self._granted
        beyond = find_excess(chosen, self._granted)
        if beyond:
            raise NotPermitted(f"The workspace asks for more than the policy grants it: {'; '.join(beyond)}.")
        # By name all of that is granted. But where the environment may write, names and links are its own.
        check_paths(chosen, self._writable)
        outside = find_escapes(chosen, self._granted)
        if outside:
            raise NotPermitted(f"The workspace asks for {outside[0]!r}, a link that leads out of what it is granted.")
        return chosen

    def end(self, number: int) -> str:
        """End one that runs, and say how it ended."""
        running = self.running.pop(number, None)
        if running is None:
            late = number in self._overdue
            self._overdue.discard(number)
            return "timeout" if late else "ended"
        child = running[0]
        child.wait(_CLOSED_S)
        child.kill()
        return str(child.cause)

    def end_overdue(self) -> None:
        """End those whose time is over."""
        for number, (_, ends_s) in list(self.running.items()):
            if time.monotonic() >= ends_s:
                self.end(number)
                self._overdue.add(number)

    def close(self) -> None:
        """End all."""
        for number in list(self.running):
            self.end(number)


class WorkspaceServer:
    """Answers an environment's requests for workspaces, in a thread, until either end is closed.

    The other end can be passed on, for instance to a workspace, so this does not wait until it is closed everywhere.
    """

    def __init__(self, near: socket.socket, policy: Policy, tenant: str = "") -> None:
        self._near, self._workspaces, self._closed = near, Workspaces(policy, tenant), threading.Event()
        self._thread = threading.Thread(target=self._serve, name="paddock-workspaces", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close it, whoever holds the other end, and end all workspaces. Safe to call twice."""
        self._closed.set()
        with suppress(OSError):
            self._near.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join(_JOIN_S)

    def _serve(self) -> None:
        with self._near:
            try:
                while self._wait() and not self._closed.is_set():
                    packet = self._near.recv(PACKET_BYTES)
                    if not packet:
                        return
                    self._answer(packet)
            except OSError:  # answers that nobody reads, among others
                return
            finally:
                with suppress(OSError):
                    self._near.shutdown(socket.SHUT_RDWR)  # nobody should wait for an answer while the workspaces end
                self._workspaces.close()

    def _wait(self) -> bool:
        """Wait for a request; meanwhile read outputs and end overdue workspaces."""
        while True:
            running = self._workspaces.running.values()
            outputs = {child.output_fd: child for child, _ in running if child.output_fd is not None}
            poll = select.poll()
            for fd in (self._near.fileno(), *outputs):
                poll.register(fd, select.POLLIN)
            next_s = min((ends_s for _, ends_s in running), default=None)
            wait_s = None if next_s is None else max(0.0, next_s - time.monotonic())
            ready = [fd for fd, _ in poll.poll(None if wait_s is None else wait_s * 1000)]
            for fd in outputs.keys() & ready:
                outputs[fd].drain()
            self._workspaces.end_overdue()
            if self._near.fileno() in ready:
                return True

    def _answer(self, packet: bytes) -> None:
        near: socket.socket | None = None
        answer: dict[str, Any]
        try:
            request = json.loads(packet)
            if "end" in request:
                answer = {"ended": self._workspaces.end(int(request["end"]))}
            else:
                argv, asked = request["argv"], request["policy"]
                if not isinstance(argv, list) or not argv or not all(isinstance(one, str) for one in argv):
                    raise NotPermitted("A workspace needs argv, a list of texts.")
                near, number = self._workspaces.start(argv, None if asked is None else Policy.from_dict(asked))
                answer = {"number": number}
        except PaddockError as error:
            answer = {"refused": str(error)}
        except Exception:  # a packet of nonsense, or a machine without room: the reason stays out here
            answer = {"refused": "The request for a workspace could not be carried out."}
        reply = json.dumps(answer).encode()[:PACKET_BYTES]
        # Never waiting: deadlines must hold while nobody reads the answers. BlockingIOError closes the connection.
        if near is None:
            self._near.send(reply, socket.MSG_DONTWAIT)
            return
        with near:
            sent = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [near.fileno()]))]
            self._near.sendmsg([reply], sent, socket.MSG_DONTWAIT)  # socket.send_fds would not pass the flag on
