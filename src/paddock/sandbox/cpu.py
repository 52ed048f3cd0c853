"""Watch the CPU time of workers: one that uses more in a call than its policy allows is ended.

One thread looks at all of them now and then. It knows nothing of calls: each reply begins the next one.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from contextlib import suppress

from paddock.sandbox.child import Child

_LOOK_S = 0.1
_EACH_S = 0.001  # with many workers it looks less often: a look at one takes some 20 us

# With the CPU seconds that each had used when it last replied; None until its first reply, while it starts.
_watched: weakref.WeakKeyDictionary[Child, float | None] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_thread: threading.Thread | None = None


def watch(child: Child) -> None:
    """From now on until it has ended."""
    global _thread
    with _lock:
        _watched[child] = None
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_keep_looking, name="paddock-cpu", daemon=True)
            _thread.start()


def _keep_looking() -> None:
    while True:
        time.sleep(max(_LOOK_S, _EACH_S * len(_watched)))
        if not _look_at_all():
            return


def _look_at_all() -> bool:
    """Whether there is anything to look at."""
    global _thread
    with _lock:
        for child in [one for one in _watched if one.fd is None]:
            del _watched[child]
        if not _watched:
            _thread = None
            return False
        children = list(_watched.items())
    for child, before_s in children:
        with suppress(Exception):  # whatever is wrong with one, the others are looked at; this one again next time
            used_s = child.cpu_s()
            if child.answered:
                child.answered, _watched[child] = False, used_s
            elif used_s > child.start_cpu_s if before_s is None else used_s - before_s > child.policy.call_cpu_s:
                child.end_overspent()
    return True


def _forget() -> None:
    """In a forked child, whose parent goes on watching."""
    global _lock, _thread
    _lock, _thread = threading.Lock(), None
    _watched.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
