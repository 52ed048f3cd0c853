"""A clock for what must be quick. Time in which this thread was ready to run and had no core does not count."""

from paddock.bench.hostile.host_state import awake_s as awake_s
