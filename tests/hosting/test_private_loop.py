"""PrivateLoop: one loop for all calls of blocking code, and one task that what is opened in it may end with."""

import asyncio
import signal
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


@pytest.mark.parametrize("where", ["in the loop", "in the coroutine"])
def test_a_call_that_was_interrupted_does_not_end_the_next_one(loop, where, interruptible):
    async def interrupted():
        if where == "in the coroutine":
            raise KeyboardInterrupt
        asyncio.get_running_loop().call_later(0.05, signal.raise_signal, signal.SIGINT)
        await asyncio.sleep(0.1)

    async def answer():
        await asyncio.sleep(0.2)
        return 7

    with pytest.raises(KeyboardInterrupt):
        loop.run(interrupted())
    assert loop.run(answer()) == 7


FORGOTTEN = """
import asyncio, gc, threading
from asyncio.base_events import _run_until_complete_cb
from paddock.hosting.private_loop import PrivateLoop

def use(thread):
    ends = threading.Event()
    async def start():
        (root,) = [one for one in asyncio.all_tasks() if any(cb is _run_until_complete_cb for cb, _ in one._callbacks)]
        if thread:  # as anyio's do, it keeps its root task and ends with it
            root.add_done_callback(lambda _: ends.set())
            threading.Thread(target=lambda root: ends.wait(), args=[root]).start()
    PrivateLoop().run(start())

use(thread=True)
use(thread=False)
gc.collect()
"""

RUNNING = """
import asyncio, threading
from paddock.hosting.private_loop import PrivateLoop

started = threading.Event()
async def wait():
    started.set()
    await asyncio.sleep(60)
threading.Thread(target=lambda: PrivateLoop().run(wait()), daemon=True).start()
started.wait()
"""


@pytest.mark.process
@pytest.mark.parametrize("program", [FORGOTTEN, RUNNING])
def test_a_loop_that_nobody_closed_does_not_disturb_the_end_of_the_interpreter(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
