"""Start processes from one thread that lives as long as this process. A worker dies with the *thread* that started it.

That is how PR_SET_PDEATHSIG works, and it is what ends a worker when this process is killed. Started from a thread of
the caller's it would also end when that thread does.
"""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Callable

Start = Callable[[], "subprocess.Popen[bytes]"]


class _Order:
    """Something to start, and what became of it."""

    def __init__(self, start: Start) -> None:
        self.start, self.done = start, threading.Event()
        self.process: subprocess.Popen[bytes] | None = None
        self.error: BaseException | None = None


class _Starter:
    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="paddock-starter", daemon=True).start()

    def _work(self) -> None:
        while True:
            order = self._orders.get()
            try:
                order.process = order.start()
            except BaseException as error:
                order.error = error
            order.done.set()
            del order  # not kept until the next one comes

    def start(self, start: Start) -> subprocess.Popen[bytes]:
        order = _Order(start)
        self._orders.put(order)
        order.done.wait()
        if order.process is None:
            assert order.error is not None
            raise order.error
        return order.process


_starter: _Starter | None = None
_making = threading.Lock()


def _forget() -> None:
    """A forked process has none of its parent's threads."""
    global _starter, _making
    _starter, _making = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def spawn(argv: list[str], *, fds: tuple[int, ...], output: int, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """The program as the leader of a session of its own, with nothing open but ``fds`` and its standard streams."""
    global _starter
    with _making:
        if _starter is None:
            _starter = _Starter()
        starter = _starter
    return starter.start(
        lambda: subprocess.Popen(  # noqa: S603 - our own arguments
            argv,
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=env,
            start_new_session=True,
        )
    )
