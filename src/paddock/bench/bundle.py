"""A bundle: the record of one benchmark run, as a folder that anyone can check. ``docs/bench.md`` has the form.

===================  =================================================================================================
``plan.json``        what was decided before the first episode: tasks, episodes, policy, metric. Written first
``start.json``       the nonce, from which with the plan all seeds follow; the platform; the key that will sign
``episodes.log``     every episode, step by step (``log.py``)
``statement.json``   in-toto statement in a signed envelope over all of these. Written last, so a broken run has none
``notes.json``       times and warnings. Not signed, and no part of the record
===================  =================================================================================================

``read_bundle`` believes nothing: what it returns is what the log holds, and the log, plan and statement fit each other.
It does not say who signed, nor that the environments answer so: that is what ``verify`` adds.
"""

from __future__ import annotations

import hashlib
import re
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from paddock.bench.log import MOST_EPISODES, Episode, Log, bits, malformed, read_log, root_of, tampered
from paddock.core.spec import EnvSpec
from paddock.errors import InvalidBundle, InvalidKey, InvalidSignature, InvalidSpec, Untrusted
from paddock.spaces.json_data import JsonLimits, NotJson
from paddock.trust.envelope import canonical_json, open_envelope, read_canonical, seal, statement
from paddock.trust.files import read_bounded, write_new
from paddock.trust.keys import PublicKey

if TYPE_CHECKING:
    from paddock.trust.keys import SigningKey

FORMAT = "paddock.bench.v1"
PREDICATE = "https://paddock.invalid/benchmark-run/v1"
PLAN, START, LOG, STATEMENT, NOTES = "plan.json", "start.json", "episodes.log", "statement.json", "notes.json"
ORIGINS = {"challenge": "a challenger's", "random": "drawn by the run itself", "seed": "chosen by whoever ran it"}
_LIMITS = JsonLimits(1 << 22, nesting=16, pieces=1 << 18)
_STATEMENT_BYTES = 1 << 26
_DIGEST_BYTES = 32
_Bits: Any = str  # a float64 as `log.bits` writes it
Array = np.ndarray[Any, Any]


class Task(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One task of a plan: an environment and how its episodes count.

    ``spec``: the EnvSpec's JSON. ``environment``: its digest. ``package``: that of a folder's code. ``metric`` makes an
    episode's value: its return, its length, or 1 for a return of ``success_at`` or more. An episode that failed or was
    aborted has the value ``failure``. ``floor`` is the most that doing nothing may get, ``ceiling`` what random actions
    must stay below. Without ``actions``, the dtype and shape of one, steps are recorded as lines; ``observation_bytes``
    is 0 where rows have the SHA-256 of the observation.
    """

    name: str
    target: str
    spec: str
    environment: str
    package: str | None
    spaces: str
    episodes: int
    max_steps: int
    metric: Literal["return", "length", "success"]
    success_at: str | None
    failure: str
    floor: str | None
    ceiling: str | None
    agentic: bool
    determinism: Literal["exact", "none"]
    actions: tuple[str, tuple[int, ...]] | None
    observation_bytes: int

    @property
    def row(self) -> np.dtype[Any] | None:
        """The type of a step in ROWS; None if the task is recorded as lines."""
        if self.actions is None:
            return None
        dtype, shape = self.actions
        size = self.observation_bytes or _DIGEST_BYTES
        return np.dtype([("action", dtype, shape), ("reward", "<f8"), ("flags", "u1"), ("observation", f"V{size}")])

    def value_of(self, episode: Episode) -> float:
        """What an episode counts, by the metric."""
        if episode.status in ("failed", "aborted"):
            return float(self.failure)
        if self.metric == "success":
            return float(episode.total >= float(self.success_at or 0.0))
        return float(episode.steps) if self.metric == "length" else episode.total


class PolicyPlan(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The policy, as the run names it, and the SHA-256 of its code or weights; None where it has none to hash."""

    name: str
    digest: str | None


class Plan(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a run commits to before its first episode. Its digest is the SHA-256 of ``plan.json``."""

    format: str
    suite: str
    tasks: tuple[Task, ...]
    policy: PolicyPlan
    isolation: str
    seed_rule: str
    retries: int
    paddock: str

    @property
    def episodes(self) -> int:
        """How many episodes all tasks have."""
        return sum(task.episodes for task in self.tasks)


class Start(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How a run began. ``origin`` of the nonce: somebody's ``challenge``, ``random``, or a user's own ``seed``."""

    plan: str
    nonce: str
    origin: Literal["challenge", "random", "seed"]
    signer: str
    platform: dict[str, str]


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read. ``episodes`` has those that ended, by number; all of the plan if it is ``complete``."""

    path: Path
    plan: Plan
    plan_digest: str
    start: Start
    log: Log
    complete: bool

    @cached_property
    def episodes(self) -> list[Episode]:
        """The episodes, in the order of the plan."""
        return [self.log.episodes[number] for number in sorted(self.log.episodes)]

    @cached_property
    def digest(self) -> str:
        """The digest of plan, nonce and every step: two runs with the same one are the same run."""
        root = root_of([episode.head for episode in self.episodes])
        return hashlib.sha256(bytes.fromhex(self.plan_digest + self.start.nonce + root)).hexdigest()

    def of_task(self, task: int) -> list[Episode]:
        """The episodes of one task."""
        return self._by_task[task]

    @cached_property
    def _by_task(self) -> list[list[Episode]]:
        found: list[list[Episode]] = [[] for _ in self.plan.tasks]
        for episode in self.episodes:
            found[episode.task].append(episode)
        return found

    def values(self, task: int) -> Array:
        """What each episode of a task counts, float64; those that failed or were aborted count as well."""
        return np.array([self.plan.tasks[task].value_of(episode) for episode in self.of_task(task)], np.float64)


def seed_of(plan_digest: str, nonce: str, number: int) -> int:
    """The seed of an episode. It follows from plan and nonce, so there is no seed to choose."""
    salt = bytes.fromhex(plan_digest) + bytes.fromhex(nonce) + struct.pack("<I", number)
    return int.from_bytes(hashlib.sha256(b"paddock-seed-v1" + salt).digest()[:4], "big")


def write_json(path: Path, value: msgspec.Struct) -> bytes:
    """Write a plan or a start in its one form; a file that exists is an error."""
    text = canonical_json(msgspec.json.decode(msgspec.json.encode(value)))
    write_new(path, text, 0o644)
    return text


def read_plan(folder: Path) -> tuple[Plan, str]:
    """The plan of a bundle, and its digest."""
    text, plan = _read(folder / PLAN, Plan)
    if plan.format != FORMAT:
        raise malformed(f"its format is {plan.format[:40]!r}; this paddock reads {FORMAT}")
    if not plan.tasks or not 0 < plan.episodes <= MOST_EPISODES or any(task.episodes < 1 for task in plan.tasks):
        raise malformed(f"its plan has {plan.episodes} episodes of {len(plan.tasks)} tasks")
    if plan.retries or plan.seed_rule != "paddock-seed-v1":
        raise malformed("its plan has another rule of seeds, or retries, which this paddock doesn't know")
    for task in plan.tasks:
        _check_task(task)
    return plan, hashlib.sha256(text).hexdigest()


def read_start(folder: Path, plan_digest: str) -> Start:
    """The start of a bundle with this plan."""
    start: Start = _read(folder / START, Start)[1]
    if start.plan != plan_digest:
        raise tampered("The run began with another plan than the one in this bundle.")
    if len(start.nonce) != 64 or not set(start.nonce) <= set("0123456789abcdef"):
        raise malformed("its nonce is not 32 bytes in hexadecimal")
    return start


def read_bundle(path: str | Path, *, partial: bool = False) -> Bundle:
    """Read a bundle that anyone may have written, in bounded memory; an InvalidBundle has the ``reason``.

    ``partial`` accepts a run that has not ended.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise malformed(f"{folder} is not a folder")
    plan, plan_digest = read_plan(folder)
    start = read_start(folder, plan_digest)
    signed = _bytes(folder / STATEMENT, _STATEMENT_BYTES, missing_ok=True)
    if signed is None and not partial:
        raise InvalidBundle(
            f"{folder} has no statement: the run broke off, or still goes on. To go on with it, give the same "
            f"`paddock bench run` again, with --out {folder}.",
            reason="incomplete",
        )
    log = read_log(folder / LOG, plan_digest, start.nonce, [task.row for task in plan.tasks])
    _check_episodes(plan, plan_digest, start, log)
    if signed is not None:
        _check_statement(signed, plan, start, log)
    return Bundle(folder, plan, plan_digest, start, log, signed is not None)


def sign_bundle(folder: Path, plan: Plan, start: Start, log: Log, key: SigningKey) -> None:
    """Write the statement that makes a bundle complete. What is in the log must have reached the disk."""
    made = statement(_subjects(plan, start, log), PREDICATE, _predicate(start, log))
    write_new(folder / STATEMENT, seal(made, [key]), 0o644)


def _subjects(plan: Plan, start: Start, log: Log) -> dict[str, str]:
    heads = [log.episodes[number].head for number in sorted(log.episodes)]
    environments = {f"environment {task.name}": task.package or task.environment for task in plan.tasks}
    policy = {} if plan.policy.digest is None else {"policy": plan.policy.digest}
    return {"run": root_of(heads), "plan": start.plan, **environments, **policy}


def _predicate(start: Start, log: Log) -> dict[str, Any]:
    rows = [[one.task, one.status, one.steps, bits(one.total), one.head] for _, one in sorted(log.episodes.items())]
    return {"start": msgspec.to_builtins(start), "log": log.sha256, "abandoned": log.abandoned, "episodes": rows}


def _check_statement(signed: bytes, plan: Plan, start: Start, log: Log) -> None:
    try:
        opened = open_envelope(signed, [PublicKey.parse(start.signer)], predicate_type=PREDICATE)
    except InvalidKey as error:
        raise malformed(f"its signer is not a key: {error}") from None
    except InvalidSignature as error:
        raise malformed(f"its statement can't be read: {error}") from None
    except Untrusted as error:
        raise tampered("The statement is not signed by the key with which the run began.") from error
    if len(log.episodes) < plan.episodes:
        missing = next(number for number in range(plan.episodes) if number not in log.episodes)
        raise InvalidBundle(
            f"{plan.episodes - len(log.episodes)} of the {plan.episodes} episodes of the plan are missing, the first "
            f"is episode {missing}.",
            reason="incomplete",
            episode=missing,
        )
    subjects = {one["name"]: one["digest"]["sha256"] for one in opened.statement["subject"]}
    for name, digest in _subjects(plan, start, log).items():
        if subjects.get(name) != digest:
            raise tampered(f"The statement is about another {name} than the one in this bundle.")
    found, expected = opened.predicate, _predicate(start, log)
    if found == expected:
        return
    for number, (one, other) in enumerate(zip(found.get("episodes") or (), expected["episodes"], strict=False)):
        if one != other:
            raise tampered(f"Episode {number} of the log is not the one that was signed.", episode=number)
    raise tampered("The log is not the one that was signed.")


def _check_episodes(plan: Plan, plan_digest: str, start: Start, log: Log) -> None:
    task_of = [at for at, task in enumerate(plan.tasks) for _ in range(task.episodes)]
    for number, episode in log.episodes.items():
        if number >= plan.episodes:
            raise tampered(f"The log has an episode {number}, and the plan {plan.episodes}.", episode=number)
        if episode.task != task_of[number]:
            raise tampered(f"Episode {number} is of another task than the plan says.", episode=number)
        if episode.seed != seed_of(plan_digest, start.nonce, number):
            raise tampered(f"Episode {number} has a seed that does not follow from plan and nonce.", episode=number)
        if episode.steps > plan.tasks[episode.task].max_steps:
            raise tampered(f"Episode {number} has more steps than the plan allows.", episode=number)


def _check_task(task: Task) -> None:
    try:
        EnvSpec.from_json(task.spec)
        numbers = [task.failure, task.success_at, task.floor, task.ceiling]
        if not np.isfinite([float(text) for text in numbers if text is not None]).all():
            raise ValueError("a number that is not finite")
        if not 0 <= task.observation_bytes <= 1 << 16 or not 0 < task.max_steps <= 1 << 30:
            raise ValueError("a size out of bounds")
        if task.actions is not None and not (
            re.fullmatch(r"[<>|][biuf]\d{1,2}", task.actions[0], re.ASCII)
            and 0 < np.prod(task.actions[1], dtype=float) <= 1 << 16
        ):
            raise ValueError("actions that are not small arrays of numbers")
        _ = task.row  # raises for a type or shape that NumPy does not know
    except (InvalidSpec, ValueError, TypeError) as error:
        raise malformed(f"its task {task.name[:80]!r} has {error}") from None


def _read(path: Path, kind: Any) -> tuple[bytes, Any]:
    text = _bytes(path, _LIMITS.text)
    try:
        return text, msgspec.convert(read_canonical(text, _LIMITS), kind)
    except (NotJson, msgspec.ValidationError) as error:
        raise malformed(f"{path.name} can't be read: {error}") from None


def _bytes(path: Path, limit: int, *, missing_ok: bool = False) -> Any:
    try:
        return read_bounded(path, limit)
    except FileNotFoundError:
        if missing_ok:
            return None
        raise malformed(f"it has no {path.name}") from None
    except (ValueError, OSError) as error:
        raise malformed(f"{path.name} can't be read: {error}") from None
