"""A clock for what must be quick. Time in which this thread was ready to run and had no core does not count."""

import time
from contextlib import suppress


def awake_s():
    waited_ns = 0
    with suppress(OSError), open("/proc/thread-self/schedstat") as times:  # Linux
        waited_ns = int(times.read().split()[1])
    return time.monotonic() - waited_ns / 1e9
