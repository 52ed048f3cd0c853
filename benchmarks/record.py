"""What records cost, against SHA-256 of the same bytes by hashlib, and what verification costs, against Gymnasium.

Seconds are those of the processor: all of it runs in one thread, and other programs on the machine count less.

python benchmarks/record.py [--rounds N] [--quick]

Bars: recording one Python lane takes at most 10 times as long as hashlib's SHA-256 of all its rows at once; 1,024
compiled lanes are recorded in blocks per lane at half the rate of SHA-256 or more; the suites classic-control and
toy-text are verified 10 times faster than `gymnasium.make` takes the same steps; a million steps need 300 MB.
"""

import argparse
import hashlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np

import paddock
from paddock.bench.bundle import PolicyPlan, read_bundle
from paddock.bench.log import LogWriter
from paddock.bench.plan import make_plan
from paddock.bench.policies import find_policy
from paddock.bench.recording import LaneRecorder, RowRecorder
from paddock.bench.run import run_suite
from paddock.bench.suites import BUILT_IN, Suite, SuiteTask
from paddock.bench.verify import Checks, verify_bundle
from paddock.trust.keys import SigningKey

ZERO = "00" * 32
LANES = 1024


def seconds(work):
    began = time.process_time()
    work()
    return time.process_time() - began


def one_lane(folder, task, steps):
    """Seconds to record so many steps of CartPole, and to hash their rows one by one and at once."""
    env = paddock.make("CartPole-v1", max_episode_steps=-1)
    observation, _ = env.reset(seed=1)
    # Few, since an environment has just written what it returns: it is in the processor's cache.
    results = [(at % 2, np.array(observation + at, np.float32), 1.0) for at in range(500)] * (steps // 500)
    log = LogWriter(folder / "one.log", ZERO, ZERO)
    recorder = RowRecorder(log, 0, task, env.observation_space)
    recorder.begin(0, 1, observation)

    def record():
        step = recorder.step
        for result in results:
            step(result)
        recorder.end("aborted")

    def only_loop():
        for _ in results:
            pass

    taken = seconds(record) - seconds(only_loop)
    log.close()
    rows = np.zeros(steps, task.row)
    text = [rows[at : at + 1].tobytes() for at in range(steps)]

    def each():
        sha = hashlib.sha256
        for row in text:
            sha(row).digest()

    return taken, seconds(each), seconds(lambda: hashlib.sha256(rows).digest())


def many_lanes(folder, task, steps):
    """Seconds to record so many steps of all lanes, and to hash the same bytes."""
    env = paddock.make("CartPole-v1", num_envs=LANES)
    observations, _ = env.reset(seed=1)
    observations, rewards, terminated, truncated, _ = env.step(actions := env.action_space.sample())
    terminated[:] = False
    log = LogWriter(folder / "many.log", ZERO, ZERO)
    recorder = LaneRecorder(log, 0, task, env.single_observation_space, LANES)
    for lane in range(LANES):
        recorder.begin(lane, lane, 1, observations)

    def record():
        for _ in range(steps):
            recorder.step(actions, observations, rewards, terminated, truncated)

    taken = seconds(record)
    log.close()
    (folder / "many.log").unlink()
    data = bytes(task.row.itemsize * LANES * steps)
    return taken, seconds(lambda: hashlib.sha256(data).digest())


def verify(folder):
    verdict = verify_bundle(folder, Checks(judge=lambda signer: None))
    assert verdict.reason is None, verdict.message
    return verdict


def gymnasium_seconds(id, count):
    """Seconds that ``gymnasium.make`` needs for one step, resets included, with actions that are at hand."""
    import gymnasium

    env = gymnasium.make(id)
    env.action_space.seed(1)
    actions = [env.action_space.sample() for _ in range(1000)]
    steps = seed = 0
    began = time.process_time()
    while steps < count:
        env.reset(seed=seed)
        seed += 1
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            steps += 1
            if terminated or truncated:
                break
    return (time.process_time() - began) / steps


def verification(folder, episodes):
    """(task, steps, times faster than gymnasium.make) for each task of both suites, and the gain over all of them."""
    rows, ours, theirs = [], 0.0, 0.0
    for suite in (BUILT_IN["classic-control"], BUILT_IN["toy-text"]):
        for task in suite.task:
            place = folder / task.env
            if not place.exists():
                one = Suite("one", [msgspec.structs.replace(task, name=task.env)])
                run_suite(one, find_policy("random"), place, SigningKey.generate(), num_envs=256, episodes=episodes)
            steps = sum(episode.steps for episode in read_bundle(place).episodes)
            taken, other = seconds(lambda place=place: verify(place)), steps * gymnasium_seconds(task.env, 5_000)
            rows.append((task.env, steps, other / taken))
            ours, theirs = ours + taken, theirs + other
    return rows, theirs / ours


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="small counts, to see that it runs")
    parser.add_argument("--memory", metavar="BUNDLE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        verify(arguments.memory)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
        return 0
    scale = 10 if arguments.quick else 1
    long = Suite("long", [SuiteTask("Pendulum-v1", name="Pendulum-v1", episodes=5_000 // scale)])
    cartpole = Suite("cartpole", [SuiteTask("CartPole-v1", name="CartPole-v1")])
    task = make_plan(cartpole, PolicyPlan(name="random", digest=None)).tasks[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_suite(long, find_policy("null"), folder / "long", SigningKey.generate(), num_envs=256)
        one, many, gains = [], [], []
        for round_ in range(arguments.rounds):
            place = folder / str(round_)
            place.mkdir()
            one.append(one_lane(place, task, 100_000 // scale))
            many.append(many_lanes(place, task, 1024 // scale))
            gains.append(verification(folder, 200 // scale))
        memory = int(subprocess.check_output([sys.executable, __file__, "--memory", str(folder / "long")]))
    each = statistics.median(taken / by_row for taken, by_row, _ in one)
    whole = statistics.median(taken / at_once for taken, _, at_once in one)
    rate = statistics.median(at_once / taken for taken, at_once in many)
    gain = statistics.median(gain for _, gain in gains)
    print(f"one Python lane: {statistics.median(one)[0] / (100_000 // scale) * 1e9:,.0f} ns per step")
    print(f"  of SHA-256 of all rows at once: {whole:.1f} times (bar: at most 10)")
    print(f"  of SHA-256 row by row: {each:.2f} times")
    print(f"{LANES:,} lanes in blocks: {rate:.2f} of the rate of SHA-256 (bar: at least 0.5)")
    print(f"verification of both suites: {gain:.1f} times as fast as gymnasium.make (bar: 10)")
    for at, (id, steps, _) in enumerate(gains[0][0]):
        print(f"  {id}, {steps:,} steps: {statistics.median(rows[at][2] for rows, _ in gains):.1f} times")
    print(f"verification of {5_000 // scale * 200:,} steps: at most {memory} MB resident (bar: 300)")
    return int(not (whole <= 10 and rate >= 0.5 and gain >= 10 and memory <= 300))


if __name__ == "__main__":
    sys.exit(main())
