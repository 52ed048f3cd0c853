"""PrivateLoop: one loop for all calls of blocking code, and one task that what is opened in it may end with."""

import asyncio
import subprocess
import sys

import pytest

from paddock.hosting.private_loop import PrivateLoop


@pytest.fixture
def loop():
    one = PrivateLoop()
    yield one
    one.close()


def test_it_returns_or_raises_what_the_coroutine_does(loop):
    async def answer(error=None):
        if error is not None:
            raise error
        return 7

    assert loop.run(answer()) == 7
    for error in (ValueError("no"), RuntimeError("Event loop stopped before Future completed.")):
        with pytest.raises(type(error), match=str(error)):
            loop.run(answer(error))
    assert loop.run(answer()) == 7


def test_what_one_call_starts_goes_on_in_the_next(loop):
    async def start():
        queue = asyncio.Queue()
        return queue, asyncio.ensure_future(queue.get())

    queue, waiting = loop.run(start())

    async def finish():
        queue.put_nowait("x")
        return await waiting

    assert loop.run(finish()) == "x"


def test_it_works_where_a_loop_runs(loop):
    async def outer():
        return loop.run(asyncio.sleep(0, "inner"))

    assert asyncio.run(outer()) == "inner"


ENDS = """
import asyncio, threading
from asyncio.base_events import _run_until_complete_cb
from paddock.hosting.private_loop import PrivateLoop

ends, roots, loop = threading.Event(), set(), PrivateLoop()

async def start():  # a thread that ends with the task that run_until_complete was given, as anyio's do
    (root,) = [task for task in asyncio.all_tasks() if any(cb is _run_until_complete_cb for cb, _ in task._callbacks)]
    if not roots:
        root.add_done_callback(lambda _: ends.set())
        threading.Thread(target=ends.wait).start()
    roots.add(root)

for _ in range(3):
    loop.run(start())
print(len(roots), ends.is_set(), flush=True)
"""


@pytest.mark.process
def test_threads_of_its_one_root_task_are_kept_and_end_with_the_interpreter():
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("1 False\n", "", 0)
