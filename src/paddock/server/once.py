"""Once: requests of one session by their ids, each carried out one time however often it comes.

Kept are a few answers, and many more ids: a request that comes back after its answer is dropped is refused, not redone.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from paddock.server.chain import digest

_ANSWERS = 8
_IDS = 1024

_Key: TypeAlias = "tuple[type, str | int]"  # 1 and "1" are two ids


@dataclass
class _Asked:
    digest: bytes
    answer: asyncio.Future[bytes] | None  # None once it is dropped


class Once:
    """Of one session."""

    def __init__(self) -> None:
        self._asked: OrderedDict[_Key, _Asked] = OrderedDict()
        self._answered: deque[_Key] = deque()

    def answer(
        self, id: str | int, request: bytes, work: Callable[[], Coroutine[Any, Any, bytes]]
    ) -> asyncio.Future[bytes] | str:
        """The answer to the request with this id, from ``work`` if it is new; or why there is none."""
        key, mark = (type(id), id), digest(request)
        before = self._asked.get(key)
        if before is None:
            answering = asyncio.ensure_future(work())
            self._asked[key] = _Asked(mark, answering)
            answering.add_done_callback(lambda _: self._done(key))
            while len(self._asked) > _IDS:
                self._asked.popitem(last=False)
            return answering
        if before.digest != mark:
            return "it was used for another request"
        return before.answer or "its answer is not kept any more"

    def _done(self, key: _Key) -> None:
        self._answered.append(key)
        if len(self._answered) > _ANSWERS:
            old = self._asked.get(self._answered.popleft())
            if old is not None:
                old.answer = None
