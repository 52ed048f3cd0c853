"""Mcp: an external MCP server whose tools an environment offers as its own, by HTTP or as a program behind a wall.

``servers = [Mcp("http://…/mcp"), Mcp(["npx", "server-x"])]`` on a ToolEnv. A call of such a tool is a step like any
other, so it is in traces. What a server says is a stranger's: it is bounded, and nothing of it is believed but text.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from paddock import __version__
from paddock.agentic.messages import Image, Text, ToolInfo
from paddock.agentic.threads import TookTooLong
from paddock.agentic.tools import ToolOptions
from paddock.errors import EpisodeFailed, InvalidTool, InvalidValue, PaddockError, PlanError, ToolFailed
from paddock.hosting.mcp import CALL, INITIALIZE, LIST, PING, SESSION_HEADER, VERSION_HEADER, VERSIONS
from paddock.hosting.remote_address import is_loopback
from paddock.sandbox.policy import Policy
from paddock.sandbox.workspaces import Workspace, is_walled, workspace

_OLDER = ("2025-03-26", "2024-11-05")
_MOST_BYTES = 16 << 20  # of one answer
_MOST_TOOLS, _MOST_PAGES, _MOST_CHARS = 500, 50, 100_000
_LIFE_S = 24 * 3600.0  # of a program that serves
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_FOUND = "no such method here"


class Mcp:
    """An MCP server: a URL, or the words of a command, which runs behind a wall of its own.

    ``policy``: what the program may do; by default compute, without files and network. Where the environment is behind
    a wall itself, its own policy grants it: ``workspaces`` and ``workspace``. ``token_env`` names the environment
    variable with a bearer token for the URL. ``prefix`` goes before the names of the tools; ``tools`` chooses some.
    Each episode begins with a new session or program, unless ``keep``. ``timeout_s`` is for one call.
    """

    def __init__(
        self,
        server: str | Sequence[str],
        *,
        policy: Policy | None = None,
        token_env: str | None = None,
        prefix: str = "",
        tools: Sequence[str] | None = None,
        keep: bool = False,
        timeout_s: float = 20.0,
    ) -> None:
        self.url = server if isinstance(server, str) else None
        self.command = () if isinstance(server, str) else tuple(map(str, server))
        self.policy, self.token_env, self.prefix, self.timeout_s = policy, token_env, prefix, timeout_s
        self.tools, self.keep = None if tools is None else frozenset(tools), keep
        if self.url is None:
            if not self.command:
                raise PlanError("Mcp([]): expected a URL, or the words of a command, as Mcp(['npx', 'server-x']).")
            return
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PlanError(f"Mcp({self.url!r:.200}): expected http://… or https://…, or a list of words.")
        if parts.username is not None or parts.password is not None:
            raise PlanError("Mcp(…): a token in the URL would be in logs. Put it into a variable, and pass token_env=.")
        if token_env and parts.scheme == "http" and not is_loopback(parts.hostname):
            raise PlanError(f"Mcp({self.url!r:.200}): http would show the token in {token_env} to anyone. Use https.")

    def __repr__(self) -> str:
        return f"Mcp({self.url!r})" if self.url is not None else f"Mcp({list(self.command)!r})"


class McpTool:
    """A tool of a server, in the place of a method with ``@tool``. The server checks its arguments."""

    options = ToolOptions(timeout_s=None)  # the link has a limit of its own

    def __init__(self, link: Link, described: dict[str, Any]) -> None:
        self._link, self._name = link, described["name"]
        self.name = _NOT_IN_NAMES.sub("_", link.server.prefix + self._name)[:64]
        description = described.get("description") or ""
        schema = {"type": "object", "properties": {}, **described["inputSchema"]}
        self.info = ToolInfo(self.name, description[:_MOST_CHARS], schema, None)

    def read(self, arguments: Any) -> dict[str, Any]:
        if not isinstance(arguments, dict):
            raise InvalidValue("expected an object of arguments")
        return {"arguments": arguments}

    def function(self, env: Any, arguments: dict[str, Any]) -> Any:
        """Call it. ToolFailed has the server's own words."""
        return self._link.call(self._name, arguments)

    def to_plain_and_content(self, result: tuple[Any, list[Text | Image]]) -> tuple[Any, list[Text | Image]]:
        return result


class Link:
    """One session with a server."""

    def __init__(self, server: Mcp) -> None:
        self.server = server
        self._carrier: _Http | _Program | None = None
        self._number = 0
        self.about: dict[str, Any] = {}
        self.tools: list[McpTool] = []  # of the session, while it is open
        self.used = False  # whether an episode has called a tool of this session

    def open(self) -> list[McpTool]:
        """Begin a session and list the tools. EpisodeFailed if the server can't be had."""
        self.close()
        self.used = False
        server = self.server
        try:
            self._carrier = _Program(server) if server.url is None else _Http(server)
            asked = {"protocolVersion": VERSIONS[0], "capabilities": {}}
            told = self._ask(INITIALIZE, {**asked, "clientInfo": {"name": "paddock", "version": __version__}})
            version = told.get("protocolVersion")
            if version not in (*VERSIONS, *_OLDER):
                raise ValueError(f"it speaks version {str(version)[:40]!r} of MCP, expected one of {VERSIONS + _OLDER}")
            self._carrier.version = version
            about = told.get("serverInfo")
            self.about = {name: str(about.get(name))[:200] for name in ("name", "version") if isinstance(about, dict)}
            self._carrier.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            tools = self._list()
        except (OSError, ValueError, TypeError, TookTooLong, _Failed, PaddockError) as error:
            self.close()
            raise EpisodeFailed(f"{server!r} can't be used: {type(error).__name__}: {error}.") from error
        missing = (server.tools or frozenset()) - {tool["name"] for tool in tools}
        if missing:
            self.close()
            raise InvalidTool(f"{server!r} has no tool {min(missing)!r}. It has: {[tool['name'] for tool in tools]}.")
        self.tools = [McpTool(self, tool) for tool in tools if server.tools is None or tool["name"] in server.tools]
        return self.tools

    def call(self, name: str, arguments: dict[str, Any]) -> tuple[Any, list[Text | Image]]:
        """Call a tool: its structured result, and its content."""
        self.used = True
        try:
            told = self._ask(CALL, {"name": name, "arguments": arguments})
        except _Failed as error:  # for unknown tools and arguments that don't fit servers have errors of the protocol
            raise ToolFailed(str(error)[:_MOST_CHARS]) from None
        except (OSError, ValueError) as error:
            raise EpisodeFailed(f"{self.server!r} was lost in a call of {name}: {type(error).__name__}.") from error
        content = [block for one in told.get("content") or () if (block := _block(one)) is not None]
        if told.get("isError"):
            words = "\n".join(block.text for block in content if isinstance(block, Text))
            raise ToolFailed(words or f"{name} failed.")
        plain = told.get("structuredContent")
        if isinstance(plain, dict) and plain.keys() == {"result"}:
            plain = plain["result"]
        if plain is not None and not content:
            content = [Text(msgspec.json.encode(plain).decode())]
        return plain, content

    def close(self) -> None:
        """End the session. Safe to call twice."""
        carrier, self._carrier, self.tools = self._carrier, None, []
        if carrier is not None:
            carrier.close()

    def _list(self) -> list[dict[str, Any]]:
        tools: list[dict[str, Any]] = []
        cursor: Any = None
        for _ in range(_MOST_PAGES):
            told = self._ask(LIST, {} if cursor is None else {"cursor": cursor})
            for tool in told.get("tools") or ():
                if not isinstance(tool.get("name"), str) or not isinstance(tool.get("inputSchema"), dict):
                    raise ValueError("a tool without a name or a schema")
                tools.append(tool)
            cursor = told.get("nextCursor")
            if len(tools) > _MOST_TOOLS:
                raise ValueError(f"it has more than {_MOST_TOOLS} tools")
            if cursor is None:
                return tools
        raise ValueError(f"its list of tools has more than {_MOST_PAGES} pages")

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self._carrier is None:
            raise ConnectionResetError("the session has ended")
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        ends_s = time.monotonic() + self.server.timeout_s
        for message in self._carrier.exchange(request, ends_s):
            if not isinstance(message, dict):
                continue
            if "method" in message and "id" in message:  # a request of the server's: it may ask, and gets nothing
                answer = {"result": {}} if message["method"] == PING else {"error": {"code": -32601, "message": _FOUND}}
                self._carrier.send({"jsonrpc": "2.0", "id": message["id"], **answer})
            elif message.get("id") == self._number:
                if "error" in message:
                    error = message["error"]
                    raise _Failed(error.get("message", "") if isinstance(error, dict) else str(error))
                if not isinstance(message.get("result"), dict):
                    raise ValueError("an answer without a result")
                return message["result"]  # type: ignore[no-any-return]
        raise ConnectionResetError("the server ended without an answer")


class _Failed(Exception):
    """The server answered with an error."""


def _block(told: Any) -> Text | Image | None:
    """Content as ours; sounds and links become words."""
    if not isinstance(told, dict):
        return None
    if told.get("type") == "text" and isinstance(told.get("text"), str):
        return Text(told["text"].encode("utf-8", "replace").decode())
    if told.get("type") == "image" and isinstance(told.get("data"), str):
        return Image(told["data"], str(told.get("mimeType", "image/png")))
    resource = told.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return Text(resource["text"].encode("utf-8", "replace").decode())
    return Text(f"[{str(told.get('type'))[:40]}: {str(told.get('uri', ''))[:500]}]")


class _Program:
    """A program's standard input and output, one message on a line."""

    version = ""

    def __init__(self, server: Mcp) -> None:
        path, policy = server.command[0], server.policy
        if not is_walled():  # else only the trusted side sees programs, and grants what they may do
            path = shutil.which(path) or ""
            if not path:
                raise FileNotFoundError(f"there is no program {server.command[0]!r}")
            policy = policy or Policy(programs=(os.path.realpath(path), path), processes=64, call_s=_LIFE_S)
        self._run: Workspace = workspace([path, *server.command[1:]], policy)
        self._run.socket.setblocking(False)
        self._rest = bytearray()

    def send(self, message: dict[str, Any]) -> None:
        self._run.socket.settimeout(10.0)
        self._run.socket.sendall(msgspec.json.encode(message) + b"\n")
        self._run.socket.setblocking(False)

    def exchange(self, request: dict[str, Any], ends_s: float) -> Any:
        self.send(request)
        while (line := self._line(ends_s)) is not None:
            with suppress(msgspec.DecodeError, UnicodeError, RecursionError):  # servers print other things, too
                yield msgspec.json.decode(line)

    def _line(self, ends_s: float) -> bytes | None:
        searched = 0
        while (at := self._rest.find(b"\n", searched)) < 0:
            searched = len(self._rest)
            if searched > _MOST_BYTES:
                raise ValueError(f"a line of more than {_MOST_BYTES} bytes")
            child, poll = self._run.child, select.poll()
            poll.register(self._run.socket, select.POLLIN)
            if child is not None and child.output_fd is not None:  # what it writes beside, which nobody else reads
                poll.register(child.output_fd, select.POLLIN)
            ready = [fd for fd, _ in poll.poll(max(0.0, ends_s - time.monotonic()) * 1000)]
            if not ready:
                raise TookTooLong("the MCP server did not answer in time")
            if child is not None and child.output_fd in ready:
                child.drain()
            if self._run.socket.fileno() in ready:
                piece = self._run.socket.recv(1 << 16)
                if not piece:
                    return None
                self._rest += piece
        line = bytes(self._rest[:at])
        del self._rest[: at + 1]
        return line

    def close(self) -> None:
        self._run.close()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token is for the server that was named, and for no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Http:
    """Streamable HTTP: each message is a POST, and answered by JSON or by a stream of events."""

    version = ""

    def __init__(self, server: Mcp) -> None:
        self._server, self._session = server, ""
        self._opener = urllib.request.build_opener(_NoRedirect)

    def send(self, message: dict[str, Any]) -> None:
        with suppress(urllib.error.HTTPError), self._post(message, self._server.timeout_s) as answer:
            answer.read(_MOST_BYTES)

    def exchange(self, request: dict[str, Any], ends_s: float) -> Any:
        try:
            with self._post(request, max(0.001, ends_s - time.monotonic())) as answer:
                self._session = answer.headers.get(SESSION_HEADER) or self._session
                if answer.headers.get_content_type() == "text/event-stream":
                    yield from self._events(answer, ends_s)
                else:
                    body = answer.read(_MOST_BYTES + 1)
                    if len(body) > _MOST_BYTES:
                        raise ValueError(f"an answer of more than {_MOST_BYTES} bytes")
                    yield msgspec.json.decode(body)
        except urllib.error.HTTPError as error:
            with error:
                body = error.read(1 << 16)
            try:
                yield json.loads(body)  # an error of the protocol
            except ValueError:
                raise ConnectionError(f"status {error.code}") from None
            raise ConnectionError(f"status {error.code}") from None
        except TimeoutError:
            raise TookTooLong("the MCP server did not answer in time") from None

    def _events(self, answer: Any, ends_s: float) -> Any:
        data, size = list[bytes](), 0
        while line := answer.readline(_MOST_BYTES + 1):
            size += len(line)
            if size > _MOST_BYTES:
                raise ValueError(f"a stream of more than {_MOST_BYTES} bytes")
            if time.monotonic() > ends_s:
                raise TookTooLong("the MCP server did not answer in time")
            if line.startswith(b"data:"):
                data.append(line[5:].strip(b" \r\n"))
            elif not line.strip() and data:
                yield msgspec.json.decode(b"\n".join(data))
                data.clear()

    def _post(self, message: dict[str, Any], timeout_s: float) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers |= {SESSION_HEADER: self._session} if self._session else {}
        headers |= {VERSION_HEADER: self.version} if self.version else {}
        token = os.environ.get(self._server.token_env or "")
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        assert self._server.url is not None
        body = msgspec.json.encode(message)
        return self._opener.open(urllib.request.Request(self._server.url, body, headers), timeout=timeout_s)  # noqa: S310 - http or https

    def close(self) -> None:
        if self._session and self._server.url is not None:
            headers = {SESSION_HEADER: self._session, VERSION_HEADER: self.version}
            token = os.environ.get(self._server.token_env or "")
            headers |= {"Authorization": f"Bearer {token}"} if token else {}
            request = urllib.request.Request(self._server.url, headers=headers, method="DELETE")  # noqa: S310
            with suppress(OSError, ValueError):
                self._opener.open(request, timeout=2.0).close()
            self._session = ""
