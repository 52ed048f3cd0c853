"""Cassette: calls to other systems, recorded so that a later run needs no network.

Secrets in headers and URLs are never written; the bodies of answers are, with whatever a server puts into them.
"""

from __future__ import annotations

import base64
import binascii
import errno
import fcntl
import hashlib
import json
import os
import re
import stat
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from paddock.errors import InvalidCassette

Mode = Literal["record", "replay", "auto"]

FORMAT = {"paddock cassette": 1}
REDACTED = "redacted"

# Which headers of a request may change the answer. The user agent and the secrets don't matter here.
_MATTER = ("accept", "content-encoding", "content-type", "if-match", "if-none-match", "if-range", "range")
_SECRET_HEADER = re.compile(
    r"authoriz|authentication-|cookie|token|secret|passw|credential|session|signature|api-?key|-key$"
)
_SECRET_FIELD = re.compile(
    r"([?&;](?:[^=&;#]*(?:token|secret|passw|credential|signature|api[-_]?key)[^=&;#]*|key|sig|auth)=)[^&;#]*", re.I
)


@dataclass(frozen=True)
class RecordedAnswer:
    """One answer, whole."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Cassette:
    """A file of exchanges. Several proxies may share one; equal requests are answered in the order they were recorded.

    ``mode``: "record" starts over, "replay" never touches a network, "auto" replays what is there and records the rest.
    """

    def __init__(self, path: str | os.PathLike[str], mode: Mode = "auto", *, max_bytes: int = 64 * 1024 * 1024) -> None:
        if mode not in get_args(Mode):
            raise InvalidCassette(f"Cassette(mode={mode!r}): expected one of {', '.join(get_args(Mode))}.")
        self.path, self.mode, self.max_bytes = Path(path), mode, max_bytes
        self._lock = threading.Lock()
        self._answers: dict[str, deque[RecordedAnswer]] = {}
        self._chain = ""
        self._size = 0
        self._fd: int | None = None
        if mode == "replay":
            self._load(self._read())
        else:
            self._open()

    def take(self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes) -> RecordedAnswer | None:
        """The next answer recorded for this request; None if there is none, or no more."""
        with self._lock:
            answers = self._answers.get(_key(_request(method, url, headers, body)))
            return answers.popleft() if answers and self.mode != "record" else None

    def add(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes, *, answer: RecordedAnswer
    ) -> bool:
        """Write one exchange; False if it could not be written, for want of space or because the cassette is closed."""
        entry = {"request": _request(method, url, headers, body), "response": _response(answer)}
        with self._lock:
            chain = _extend_chain(self._chain, entry)
            if not self._write({**entry, "chain": chain}):
                return False
            self._chain = chain
        return True

    def close(self) -> None:
        """Let go of the file. A cassette that was closed still replays, and records no more."""
        with self._lock:
            self._let_go()

    def __enter__(self) -> Cassette:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        try:
            # Not for others to read: bodies may be private.
            self._fd = self._open_file(os.O_RDWR | os.O_CREAT | os.O_APPEND)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self.mode == "auto" and os.fstat(self._fd).st_size:
                    self._load(self._read())
                # Drops what a crash left of a last line, or everything to start over.
                os.ftruncate(self._fd, self._size)
                if not self._size and not self._write(FORMAT):
                    raise InvalidCassette(f"{self.path}: can't be written, or max_bytes={self.max_bytes} is too few.")
            except BaseException:
                self._let_go()
                raise
        except OSError as error:
            self._refuse_link(error)
            what = f"can't be opened: {error.strerror}"
            if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                what = "is being recorded by someone else; share one Cassette"
            raise InvalidCassette(f"{self.path}: {what}.") from None

    def _open_file(self, flags: int) -> int:
        """The file itself: a link could lead to any other, and anything else than a file could keep us waiting."""
        fd = os.open(self.path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise InvalidCassette(f"{self.path}: expected a file; this is something else. Remove it, or name another path.")

    def _refuse_link(self, error: OSError) -> None:
        if error.errno == errno.ELOOP:
            raise InvalidCassette(f"{self.path}: this is a link. Name the file that it leads to.") from None

    def _write(self, entry: dict[str, Any]) -> bool:
        """Append one line, whole or not at all."""
        line = json.dumps(entry, ensure_ascii=False).encode() + b"\n"
        if self._fd is None or self._size + len(line) > self.max_bytes:
            return False
        try:
            written = os.write(self._fd, line)
        except OSError:
            written = 0
        if written == len(line):
            self._size += written
            return True
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self._let_go()  # then the half line is the last one, which readers leave out
        return False

    def _let_go(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read(self) -> bytes:
        try:
            with os.fdopen(self._open_file(os.O_RDONLY), "rb") as file:
                data = file.read(self.max_bytes + 1)
        except OSError as error:
            self._refuse_link(error)
            hint = ' Record it first: mode="record".' if error.errno == errno.ENOENT else ""
            raise InvalidCassette(f"{self.path}: can't be read: {error.strerror}.{hint}") from None
        if len(data) > self.max_bytes:
            raise InvalidCassette(f"{self.path}: larger than max_bytes={self.max_bytes}.")
        return data

    def _load(self, data: bytes) -> None:
        *lines, _unfinished = data.split(b"\n")
        if not lines or self._parse(lines[0], 1) != FORMAT:
            raise InvalidCassette(
                f"{self.path}: line 1: expected {json.dumps(FORMAT)}; this is not a cassette of this version."
            )
        self._size = len(lines[0]) + 1
        for number, line in enumerate(lines[1:], 2):
            entry = self._parse(line, number)
            chain = entry.pop("chain", None)
            problem = _problem(entry)
            self._chain = _extend_chain(self._chain, entry)
            if problem or chain != self._chain:
                why = problem or "it was changed, moved or lost a line before it since it was recorded"
                raise InvalidCassette(f"{self.path}: line {number}: {why}. Record it again.")
            self._answers.setdefault(_key(entry["request"]), deque()).append(_read_answer(entry["response"]))
            self._size += len(line) + 1

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict):
            raise InvalidCassette(f"{self.path}: line {number}: not a JSON object. Record it again.")
        return entry


def redact_url(url: str) -> str:
    """The URL without the values of fields named token, key, password or the like."""
    return _SECRET_FIELD.sub(rf"\1{REDACTED}", url)


def _request(method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes) -> dict[str, str]:
    matter = sorted((name.lower(), value) for name, value in headers if name.lower() in _MATTER)
    digest = hashlib.sha256(json.dumps(matter).encode() + b"\n" + body).hexdigest()
    return {"method": method, "url": redact_url(url), "digest": digest}


def _response(answer: RecordedAnswer) -> dict[str, Any]:
    plain: dict[str, Any] = {"status": answer.status, "reason": answer.reason, "headers": []}
    for name, value in answer.headers:
        secret = _SECRET_HEADER.search(name.lower())
        where = name.lower() in ("location", "content-location", "link", "refresh")
        plain["headers"].append([name, REDACTED if secret else redact_url(value) if where else value])
    try:
        plain["text"] = answer.body.decode()
    except UnicodeDecodeError:
        plain["base64"] = base64.b64encode(answer.body).decode()
    return plain


def _read_answer(plain: dict[str, Any]) -> RecordedAnswer:
    headers = tuple((name, value) for name, value in plain["headers"])
    body = plain["text"].encode() if "text" in plain else base64.b64decode(plain["base64"], validate=True)
    return RecordedAnswer(plain["status"], plain["reason"], headers, body)


def _key(request: dict[str, str]) -> str:
    return f"{request['method']} {request['url']} {request['digest']}"


def _extend_chain(before: str, entry: dict[str, Any]) -> str:
    plain = json.dumps(entry, sort_keys=True)
    return hashlib.sha256(f"{before}\n{plain}".encode()).hexdigest()


_WORD = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _problem(entry: dict[str, Any]) -> str:
    """What is wrong with an entry, or "". So nobody who can write the file can write an answer's head with it."""
    request, response = entry.get("request"), entry.get("response")
    if entry.keys() != {"request", "response"} or not isinstance(request, dict) or not isinstance(response, dict):
        return "expected a request, a response and a chain"
    if request.keys() != {"method", "url", "digest"} or not all(isinstance(one, str) for one in request.values()):
        return "the request is not a method, a url and a digest"
    if response.keys() not in ({"status", "reason", "headers", "text"}, {"status", "reason", "headers", "base64"}):
        return "the response is not a status, a reason, headers and a text or base64"
    status, reason, headers = response["status"], response["reason"], response["headers"]
    worded = isinstance(reason, str) and _WORD.fullmatch(reason)
    if type(status) is not int or not 200 <= status <= 599 or not worded:
        return f"the status {status!r} or its reason is not valid"
    pairs = [one for one in headers if isinstance(one, list) and len(one) == 2] if isinstance(headers, list) else None
    if pairs is None or len(pairs) != len(headers) or not all(isinstance(part, str) for one in pairs for part in one):
        return "the headers are not pairs of a name and a value"
    if not all(_NAME.fullmatch(name) and _WORD.fullmatch(value) for name, value in pairs):
        return "the headers are not pairs of a name and a value"
    framing = {"connection", "transfer-encoding"} | ({"content-length"} if request["method"] != "HEAD" else set())
    if any(name.lower() in framing for name, _ in headers):
        return "the headers say how long the body is, which only the proxy may"
    try:
        _read_answer(response)
    except (TypeError, AttributeError, ValueError, binascii.Error):
        return "the body is neither text nor base64"
    return ""
