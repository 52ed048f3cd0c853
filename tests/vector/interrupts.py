"""Ctrl-C at a chosen line."""

import sys
from pathlib import Path

import paddock

PACKAGE = str(Path(paddock.__file__).parent)


class InterruptAt:
    """A trace function that raises KeyboardInterrupt before the given line that this process runs of paddock."""

    def __init__(self, line):
        self.left, self.place = line, None

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.left -= 1
            if self.left < 0:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self


def interrupted(do, line):
    """Where it was interrupted; None if it was over before that line."""
    interrupt, before = InterruptAt(line), sys.gettrace()
    try:
        sys.settrace(interrupt)
        next(_apart(do))
    except KeyboardInterrupt:
        return interrupt.place
    finally:
        sys.settrace(before)
    return None


def _apart(do):
    """A generator has an exception state of its own: CPython 3.11 forgets to end the handling of an exception when a
    trace function raises before an ``except`` clause's ``return``, and every later test would be run "during" it."""
    yield do()
