"""HelperThread: one call at a time, with a limit, sync or async."""

import asyncio
import gc
import pickle
import sys
import threading
import weakref
from copy import deepcopy

import pytest

from paddock.agentic.threads import TimedThread, TookTooLong


@pytest.fixture
def thread():
    thread = TimedThread()
    yield thread
    thread.close()


def test_results_and_errors_come_back(thread):
    assert thread.run(lambda: 3) == 3
    with pytest.raises(KeyError, match="here"):
        thread.run(lambda: {}["here"])
    with pytest.raises(SystemExit):
        thread.run(lambda: exit(3))


def test_all_calls_run_in_one_thread_that_is_not_the_callers(thread):
    async def here():
        return threading.get_ident()

    seen = {thread.run(threading.get_ident), thread.run(here), thread.run(threading.get_ident)}
    assert len(seen) == 1 and threading.get_ident() not in seen


def test_in_place_sync_code_runs_where_it_is_called_unless_it_has_a_limit():
    thread = TimedThread(in_place=True)
    try:
        assert thread.run(threading.current_thread) is threading.current_thread()
        assert thread.run(threading.current_thread, 5.0) is not threading.current_thread()
        with pytest.raises(SystemExit):
            thread.run(sys.exit)

        async def waits():
            return threading.current_thread(), asyncio.get_running_loop()

        (first, loop), (second, again) = thread.run(waits), thread.run(waits)
        assert first is second is not threading.current_thread() and loop is again
        assert deepcopy(thread).in_place and pickle.loads(pickle.dumps(thread)).in_place
    finally:
        thread.close()


def test_what_a_coroutine_opened_lives_on_in_the_next(thread):
    async def loop():
        return asyncio.get_running_loop()

    assert thread.run(loop) is thread.run(loop)


def test_it_works_inside_a_running_loop(thread):
    async def outer():
        return thread.run(inner)

    async def inner():
        await asyncio.sleep(0)
        return 5

    assert asyncio.run(outer()) == 5


def test_a_call_that_hangs_is_abandoned_and_keeps_the_others_out_until_it_returns(thread):
    go, begun = threading.Event(), threading.Event()

    def hang():
        begun.set()
        go.wait(30)

    with pytest.raises(TookTooLong, match="no result within"):
        thread.run(hang, 0.01)
    assert thread.busy and begun.wait(30)
    with pytest.raises(TookTooLong, match="an earlier call has not returned yet"):
        thread.run(lambda: 3, 30)
    go.set()
    thread.settle(30)
    assert not thread.busy and thread.run(lambda: 3) == 3


def test_a_coroutine_that_hangs_is_cancelled(thread):
    tidied = []

    async def hang():
        try:
            await asyncio.sleep(300)
        finally:
            tidied.append(True)

    with pytest.raises(TookTooLong):
        thread.run(hang, 0.01)
    assert tidied == [True] and not thread.busy
    assert thread.run(lambda: 3) == 3


def test_copies_and_pickles_begin_anew(thread):
    thread.run(lambda: 3)
    for copied in (deepcopy(thread), pickle.loads(pickle.dumps(thread))):
        assert copied.run(threading.get_ident) != thread.run(threading.get_ident)
        copied.close()


def test_closing_ends_the_thread_and_may_happen_twice():
    thread = TimedThread()
    worker = thread.run(threading.current_thread)
    thread.close()
    thread.close()
    assert not worker.is_alive()
    assert thread.run(lambda: 4) == 4  # it starts again
    thread.close()


def test_who_forgets_it_leaves_nothing_behind():
    class Owner:
        def call(self):
            return self

    owner, thread = Owner(), TimedThread()
    worker = thread.run(threading.current_thread)
    assert thread.run(owner.call) is owner
    gone = weakref.ref(owner)
    del owner, thread
    gc.collect()
    worker.join(30)
    assert gone() is None and not worker.is_alive()
