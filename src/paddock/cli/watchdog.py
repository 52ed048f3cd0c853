"""Watch the calls into an environment: report one that does not return, with its place, and end it at a deadline.

A second thread looks at the main thread's stack, so a call that returns in time costs nothing.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from paddock.cli.output import FAILED, Output
from paddock.errors import DeadlineExceeded
from paddock.hosting.failures import Frame, is_own, own_frame
from paddock.hosting.process_channel import ProcessChannel

FIRST_S = 10.0  # until the first report of a call that does not return; each further one takes three times as long
_HINT = "--deadline SECONDS ends such a call."
_GRACE_S = 3.0  # for an ended call to raise; after that the process ends
_LOCKED_S = 10.0  # beyond that, for this thread to get its turn; after that, faulthandler reports
_SIGNAL = getattr(signal, "SIGXCPU", None)  # "too much time": the kernel sends it only under a CPU ulimit
_CLI, _HOSTING = (f"{os.sep}paddock{os.sep}{room}{os.sep}" for room in ("cli", "hosting"))


@contextmanager
def watch(output: Output, deadline_s: float | None) -> Iterator[None]:
    """Watch the calls of this thread in the block. Only calls of the main thread can be ended."""
    watchdog = _Watchdog(output, deadline_s)
    number = _SIGNAL if threading.current_thread() is threading.main_thread() else None
    before = None if number is None else signal.signal(number, watchdog.interrupt)
    watchdog.arm()  # here: a call that holds the GIL may begin before the thread has its first turn
    thread = threading.Thread(target=watchdog.watch, name="paddock-watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watchdog.over.set()
        thread.join()
        faulthandler.cancel_dump_traceback_later()
        if number is not None:
            signal.signal(number, before)


class _Watchdog:
    def __init__(self, output: Output, deadline_s: float | None) -> None:
        self.over = threading.Event()
        self._output, self._deadline_s = output, deadline_s
        self._thread = threading.get_ident()
        self._tick_s = min(1.0, (deadline_s or FIRST_S) / 10)
        self._call: FrameType | None = None  # the frame itself: another call may have one at the same address
        self._error: DeadlineExceeded | None = None

    def watch(self) -> None:
        since = due_s = 0.0
        starting = False
        while not self.over.wait(self._tick_s):
            self.arm()
            stack = self._stack()
            call, now = _call_in(stack), time.monotonic()
            if call is None or call is not self._call:
                self._call, self._error, since, due_s = call, None, now, FIRST_S
                starting = call is not None and call.f_code.co_name == "__init__" and _HOSTING in _file(call)
            elif self._deadline_s is not None and now - since >= self._deadline_s:
                if not starting:
                    self._end(now - since, stack)
                elif _place(stack) is not None:  # until here a worker was started: no fault of the environment
                    starting, since = False, now
            elif now - since >= due_s:
                due_s *= 3
                self._output.warning(f"{_words(call)} {now - since:.0f} s{_stands(_place(stack), 'stands')}. {_HINT}")
                self._output.stderr.flush()
        self._call = None

    def interrupt(self, _number: int, frame: FrameType | None) -> None:
        """In the main thread: raise where the call stands, unless it has returned meanwhile."""
        while frame is not None:
            if frame is self._call and self._error is not None:
                raise self._error
            frame = frame.f_back

    def _end(self, took_s: float, stack: list[FrameType]) -> None:
        assert self._deadline_s is not None
        if self._error is None:
            words = f"{_words(_call_in(stack))} {self._deadline_s:g} s and was ended"
            place = _place(stack)
            self._error = DeadlineExceeded(f"{words}{_stands(place, 'stood')}.")
            self._error.__cause__ = None if place is None else place.trace()
            if _SIGNAL is not None:
                signal.pthread_kill(self._thread, _SIGNAL)
        if took_s >= self._deadline_s + _GRACE_S:  # in C code, or it swallowed the error
            self._output.failure(str(self._error), DeadlineExceeded.code)
            self._output.flush()
            os._exit(FAILED)

    def arm(self) -> None:
        """Prepare for C code that holds the GIL: then only faulthandler's thread can report."""
        with suppress(OSError, ValueError, AttributeError):  # no descriptor to write to
            limit_s = FIRST_S if self._deadline_s is None else self._deadline_s
            faulthandler.dump_traceback_later(
                limit_s + _LOCKED_S,
                repeat=self._deadline_s is None,
                file=self._output.stderr.fileno(),
                exit=self._deadline_s is not None,
            )

    def _stack(self) -> list[FrameType]:
        """The watched thread's frames, outermost first."""
        frame, frames = sys._current_frames().get(self._thread), []
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        return frames[::-1]


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename


def _call_in(stack: list[FrameType]) -> FrameType | None:
    """The call that leaves paddock: into code of others, or to a worker that holds it."""
    ours = False
    for frame in stack:
        file = _file(frame)
        ours = ours or _CLI in file  # before it comes whoever called paddock
        if ours and (is_own(file) or _HOSTING in file):
            return frame
    return None


def _words(call: FrameType | None) -> str:
    assert call is not None
    name = call.f_code.co_name
    what = f"the import of {call.f_globals.get('__name__')}" if name == "<module>" else name
    return f"{what} has not returned for"


def _stands(place: Frame | None, verb: str) -> str:
    return "" if place is None else f"; it {verb} at {place} in {place.name}"


def _place(stack: list[FrameType]) -> Frame | None:
    for frame in stack:
        channel = frame.f_locals.get("self") if _HOSTING in _file(frame) else None
        if isinstance(channel, ProcessChannel):
            return channel.where()
    below = stack[stack.index(_call_in(stack)) :]  # type: ignore[arg-type]
    return own_frame(Frame(_file(one), one.f_lineno, one.f_code.co_name) for one in below)
