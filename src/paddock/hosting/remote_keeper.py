"""One thread that looks after remote channels while nobody uses them: an agent may think for minutes between steps.

Without it a ping would go unanswered and the server take its client for gone. It ends when no channel is left.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

EVERY_S = 5.0


class Kept(Protocol):
    """What the keeper looks after."""

    def keep(self) -> bool:
        """Do what is due, quickly; False when there is nothing to look after any more."""


_lock = threading.Lock()
_channels: list[weakref.ref[Kept]] = []
_thread: threading.Thread | None = None


def keep_alive(channel: weakref.ref[Kept]) -> None:
    """Look after a channel from now on, as long as anyone else has it."""
    global _thread
    with _lock:
        _channels.append(channel)
        if _thread is None or not _thread.is_alive():  # a forked process has none
            _thread = threading.Thread(target=_run, name="paddock-remote-keeper", daemon=True)
            _thread.start()


def _run() -> None:
    global _thread
    pause = threading.Event()
    while True:
        pause.wait(EVERY_S)
        with _lock:
            channels = list(_channels)
        gone = [channel for channel in channels if not _kept(channel)]
        with _lock:
            _channels[:] = [channel for channel in _channels if channel not in gone]
            if not _channels:
                _thread = None
                return


def _kept(channel: weakref.ref[Kept]) -> bool:
    held = channel()
    if held is None:
        return False
    try:
        return held.keep()
    except Exception:  # its user is told by the next call; the others are kept
        return True


def _begin_anew() -> None:
    """In a forked process: the thread is not there, and may have held the lock."""
    global _lock, _thread
    _lock, _thread = threading.Lock(), None
    _channels.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
