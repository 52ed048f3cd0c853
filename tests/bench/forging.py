"""Runs to manipulate, and a forger who has the key: it writes false bundles whose hashes and signature are right."""

import shutil
from contextlib import closing

import msgspec
import numpy as np

from paddock.bench.bundle import LOG, PLAN, START, read_plan, seed_of, sign_bundle, write_json
from paddock.bench.log import ROWS, LogWriter, read_log
from paddock.bench.policies import find_policy
from paddock.bench.run import run_suite
from paddock.bench.suites import Suite, SuiteTask
from paddock.bench.verify import Checks, verify_bundle
from paddock.errors import Untrusted
from paddock.trust.keys import SigningKey

CARTPOLE = Suite("one", [SuiteTask("CartPole-v1", name="cartpole", episodes=4)])
KEY = SigningKey.generate()


def trust_only(*keys):
    def judge(signer):
        if signer not in [key.public for key in keys]:
            raise Untrusted("not a key of ours", fingerprints=(signer.fingerprint,))

    return judge


def run(folder, suite=CARTPOLE, policy="random", **options):
    return run_suite(suite, find_policy(policy), folder, options.pop("key", KEY), **{"seed": 1, **options})


def verify(folder, **checks):
    return verify_bundle(folder, Checks(**{"judge": trust_only(KEY), **checks}))


def forge(bundle, out, *, rows=lambda number, rows: rows, plan=lambda plan: plan, numbers=None, seed=None, start=None):
    """The bundle again, as its key holder would falsify it: other rows, another plan, other episodes or seeds."""
    out.mkdir()
    write_json(out / PLAN, plan(bundle.plan))
    changed, digest = read_plan(out)
    begun = msgspec.structs.replace(bundle.start, plan=digest, **(start or {}))
    write_json(out / START, begun)
    with closing(LogWriter(out / LOG, digest, begun.nonce)) as log:
        for number, source in enumerate(numbers or [one.number for one in bundle.episodes]):
            episode = bundle.log.episodes[source]
            loading = bundle.log.load([episode])
            begin, payloads = next(loading)
            table = np.frombuffer(b"".join(payloads), bundle.plan.tasks[episode.task].row).copy()
            table = rows(number, table)
            chosen = seed_of(digest, begun.nonce, number) if seed is None else seed(number, episode.seed)
            log.begin(number, episode.task, chosen, begin.observation)
            log.add([(number, ROWS, table.tobytes())])
            total = float(np.add.accumulate(table["reward"])[-1])
            log.end(number, episode.status, len(table), total, episode.code)
        log.sync()
    log = read_log(out / LOG, digest, begun.nonce, [task.row for task in changed.tasks])
    sign_bundle(out, changed, begun, log, KEY)
    return out


def copy(bundle, out):
    shutil.copytree(bundle.path, out)
    return out
