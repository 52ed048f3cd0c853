"""Run a benchmark into a bundle: plan first, then the nonce, then the episodes, and the signed statement last.

A run that broke off is gone on with by the same call: episodes that ended are neither lost nor played again.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from paddock.bench.bundle import (
    LOG,
    NOTES,
    PLAN,
    START,
    STATEMENT,
    Bundle,
    Plan,
    Start,
    read_bundle,
    read_plan,
    read_start,
    seed_of,
    sign_bundle,
    write_json,
)
from paddock.bench.log import LogWriter
from paddock.bench.plan import make_plan, read_platform
from paddock.bench.play import OnFailure, Player
from paddock.bench.policies import PolicySource
from paddock.bench.suites import Suite
from paddock.errors import InvalidSuite
from paddock.trust.files import replace_file, sync_folder
from paddock.trust.keys import SigningKey

_SYNC_S = 1.0


def run_suite(
    suite: Suite,
    policy: PolicySource,
    out: Path,
    key: SigningKey,
    *,
    seed: int | None = None,
    nonce: str | None = None,
    episodes: int | None = None,
    num_envs: int = 8,
    isolation: str | None = None,
    on_end: Callable[[int], None] = lambda done: None,
    on_failure: OnFailure = lambda number, error: None,
) -> Bundle:
    """Run ``suite`` into the folder ``out``, and return the bundle. ``nonce``: a challenger's, in hexadecimal.

    Without one it is drawn at random, or follows from ``seed``. If ``out`` has a run of the same plan that broke off,
    that is gone on with.
    """
    plan = make_plan(suite, policy.plan, episodes=episodes, isolation=isolation)
    if policy.agentic and (other := [task.name for task in plan.tasks if not task.agentic]):
        raise InvalidSuite(f"{policy.plan.name} plays environments of tools only, and {other[0]!r} is none.")
    plan, start = _commit(out, plan, key, seed, nonce)
    done = _reopen(out)
    if done.complete:
        return done
    targets = {task.name: task.env for task in suite.task}
    began_s, log = time.time(), LogWriter(out / LOG, start.plan, start.nonce)
    try:
        count = _Count(log, len(done.episodes), on_end)
        first = 0
        for number, task in enumerate(plan.tasks):
            numbers = [at for at in range(first, first + task.episodes) if at not in done.log.episodes]
            first += task.episodes
            jobs = [(at, seed_of(start.plan, start.nonce, at)) for at in numbers]
            player = Player(
                log,
                number,
                task,
                policy.maker,
                targets=targets,
                isolation=isolation,
                on_end=count.add,
                on_failure=on_failure,
            )
            player.play(jobs, num_envs)
        log.sync()
    finally:
        log.close()
    sync_folder(out)
    sign_bundle(out, plan, start, read_bundle(out, partial=True).log, key)
    notes = {"began_s": began_s, "ended_s": time.time(), "num_envs": num_envs}
    replace_file(out / NOTES, json.dumps(notes).encode(), 0o644)
    return read_bundle(out)


class _Count:
    """Counts the episodes that ended, and has the disk keep them once per second."""

    def __init__(self, log: LogWriter, done: int, on_end: Callable[[int], None]) -> None:
        self._log, self._done, self._on_end, self._lock = log, done, on_end, Lock()
        self._synced_s = time.monotonic()

    def add(self) -> None:
        with self._lock:
            self._done += 1
            self._on_end(self._done)
            if time.monotonic() - self._synced_s > _SYNC_S:
                self._log.sync()
                self._synced_s = time.monotonic()


def _commit(out: Path, plan: Plan, key: SigningKey, seed: int | None, nonce: str | None) -> tuple[Plan, Start]:
    """Write plan and start, or read those of the run that is gone on with. Returns them as they are in the files."""
    out.mkdir(parents=True, exist_ok=True)
    if not (out / PLAN).exists():
        if any(not path.name.startswith(".new-") for path in out.iterdir()):  # what a crash may leave behind
            raise InvalidSuite(f"{out} has other files. Name a new folder with --out.")
        write_json(out / PLAN, plan)
    committed, digest = read_plan(out)
    if committed != plan:
        raise InvalidSuite(
            f"{out} has a run of another plan: suite {committed.suite!r}, policy {committed.policy.name!r}. "
            f"Go on with the same arguments, or name another folder with --out."
        )
    if not (out / START).exists():
        value, origin = _draw_nonce(digest, seed, nonce)
        start = Start(plan=digest, nonce=value, origin=origin, signer=str(key.public), platform=read_platform())  # type: ignore[arg-type]
        write_json(out / START, start)
    start = read_start(out, digest)
    if not (out / STATEMENT).exists() and start.signer != str(key.public):
        raise InvalidSuite(f"{out} was begun with another key, which must sign it too. Give that one with --key.")
    return committed, start


def _draw_nonce(plan_digest: str, seed: int | None, nonce: str | None) -> tuple[str, str]:
    if nonce is not None:
        if len(nonce) != 64 or not set(nonce) <= set("0123456789abcdef"):
            raise InvalidSuite(f"--nonce {nonce[:70]!r}: expected the challenger's 32 bytes as 64 hexadecimal digits.")
        return nonce, "challenge"
    if seed is not None:
        salt = bytes.fromhex(plan_digest) + str(seed).encode()
        return hashlib.sha256(b"paddock-nonce-v1" + salt).hexdigest(), "seed"
    return secrets.token_hex(32), "random"


def _reopen(out: Path) -> Bundle:
    """What the run has so far. Half a frame at the end of the log is cut off: it belongs to no episode that ended."""
    (out / LOG).touch()
    found = read_bundle(out, partial=True)
    if found.log.torn:
        with (out / LOG).open("r+b") as file:
            file.truncate(found.log.whole_bytes)
            os.fsync(file.fileno())
    return found
