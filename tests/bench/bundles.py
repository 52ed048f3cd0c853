"""Bundles of a few episodes, written by hand: no environment runs."""

import numpy as np

from paddock.bench.bundle import (
    LOG,
    PLAN,
    START,
    PolicyPlan,
    Start,
    read_bundle,
    read_plan,
    seed_of,
    sign_bundle,
    write_json,
)
from paddock.bench.log import ROWS, LogWriter
from paddock.bench.plan import make_plan, read_platform
from paddock.bench.suites import Suite, SuiteTask
from paddock.trust.keys import SigningKey

CARTPOLES = Suite("tiny", [SuiteTask("CartPole-v1", name="CartPole-v1", episodes=4)])


def write_bundle(folder, returns, *, suite=CARTPOLES, key=None, policy="by hand", nonce=b"\7" * 32):
    """A signed bundle: ``returns[task]`` has one return per episode, paid in the last of three steps."""
    folder.mkdir(parents=True)
    key = key or SigningKey.generate()
    plan = make_plan(suite, PolicyPlan(name=policy, digest=None))
    write_json(folder / PLAN, plan)
    plan, digest = read_plan(folder)
    start = Start(plan=digest, nonce=nonce.hex(), origin="random", signer=str(key.public), platform=read_platform())
    write_json(folder / START, start)
    log = LogWriter(folder / LOG, digest, start.nonce)
    number = 0
    for task, totals in enumerate(returns):
        for total in totals:
            rows = np.zeros(3, plan.tasks[task].row)
            rows["reward"][-1], rows["flags"][-1] = total, 1
            log.begin(
                number, task, seed_of(digest, start.nonce, number), bytes(rows.dtype["observation"].itemsize).hex()
            )
            log.add([(number, ROWS, rows.tobytes())])
            log.end(number, "complete", 3, 0.0 + total)
            number += 1
    log.sync()
    log.close()
    sign_bundle(folder, plan, start, read_bundle(folder, partial=True).log, key)
    return read_bundle(folder)
