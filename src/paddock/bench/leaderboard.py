"""A leaderboard in a folder: bundles by their content, and a ledger of every plan that was announced and every result.

What a board shows it has verified itself, when the bundle came. All results of a plan are listed with their number, and
nonces that were issued and never used count as attempts: the best of many runs can't pose as the only one.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.bench.bundle import LOG, PLAN, START, STATEMENT, Bundle, read_bundle
from paddock.bench.ledger import Ledger
from paddock.bench.report import BundleReport
from paddock.bench.verify import Verdict
from paddock.errors import InvalidBundle
from paddock.trust.files import data_folder, sync_folder
from paddock.trust.keys import SigningKey

SIGNED = (PLAN, START, LOG, STATEMENT)  # what a board keeps; notes and whatever else lies there stay where they are
_CHUNK = 1 << 20


Verify = Callable[[Path, "str | None", bool], Verdict]  # bundle, expected nonce, whether its plan is in the ledger


@dataclass(frozen=True)
class Row:
    """One result. ``attempts`` counts the runs of its plan, unused nonces included; ``average`` is the IQM, as text."""

    id: str
    plan: str
    suite: str
    policy: str
    level: str
    average: str | None
    episodes: int
    replayed: int | None
    attempt: int
    attempts: int
    signer: str
    time_s: int
    entry: int


class Board:
    """The leaderboard in ``folder``; by default the user's own. It has a key of its own for checkpoints."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or data_folder() / "leaderboard"
        (self.folder / "bundles").mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self.folder / "ledger.key"
        if not file.exists():
            key = SigningKey.generate()
            key.save(file)
            key.public.save(file.with_suffix(".pub"))
        self.ledger = Ledger(self.folder / "board.sqlite", SigningKey.load(file))

    def close(self) -> None:
        self.ledger.close()

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def challenge(self, plan: str) -> str:
        """Enter a plan, and return the nonce for one run of it: 32 bytes in hexadecimal, which nobody knew before."""
        if not re.fullmatch("[0-9a-f]{64}", plan):
            raise InvalidBundle(
                f"{plan[:70]!r} is not the digest of a plan, 64 hexadecimal digits.", reason="malformed"
            )
        number = self.ledger.append({"kind": "challenge", "plan": plan, "time_s": str(int(time.time()))})
        return self._nonce(number)

    def submit(self, path: Path, verify: Verify) -> Row:
        """Verify the bundle, keep what is signed of it, and enter its result. One that is here already is refused."""
        read_bundle(path)
        with self._copy(path) as draft:  # what is verified is what is kept, whatever happens to the original meanwhile
            bundle, id = read_bundle(draft), _content_digest(draft)
            _refuse_names_of_this_machine(bundle)
            if any(entry.get("bundle") == id for entry in self.ledger.entries()):
                raise InvalidBundle(f"{id} is on the board already.", reason="malformed")
            issued = self._issued(bundle)
            verdict = verify(draft, bundle.start.nonce if issued else None, issued)
            if verdict.reason is not None:
                raise InvalidBundle(verdict.message, reason=verdict.reason)
            entry = _entry(bundle, id, verdict)
            if not (kept := self.folder / "bundles" / id).exists():
                draft.replace(kept)
        sync_folder(kept.parent)
        self.ledger.append(entry)
        return self.find(id)

    def rows(self) -> list[Row]:
        """All results: by suite, then by average, the best first. InvalidBundle if the ledger was changed."""
        self.ledger.check()
        entries = self.ledger.entries()
        unused = self._open_challenges(entries)
        rows = [_row(entries, number, unused) for number, one in enumerate(entries) if one["kind"] == "result"]
        return sorted(rows, key=lambda row: (row.suite, row.average is None, -float(row.average or 0.0)))

    def find(self, id: str) -> Row:
        """The result whose id begins like this."""
        found = [row for row in self.rows() if row.id.startswith(id)]
        if len(found) != 1:
            what = "several results begin" if found else "no result begins"
            raise InvalidBundle(f"{what} with {id[:70]!r}. List them: paddock bench list", reason="malformed")
        return found[0]

    def bundle(self, row: Row) -> Bundle:
        """The bundle of a result, if it still is what was submitted."""
        path = self.folder / "bundles" / row.id
        if _content_digest(path) != row.id:
            raise InvalidBundle(f"{path} is not what was submitted.", reason="tampered")
        return read_bundle(path)

    def _nonce(self, number: int) -> str:
        """The nonce of a challenge. It follows from the checkpoint over its entry, whose signature nobody can guess."""
        note = self.ledger.checkpoint_at(number + 1)
        return hashlib.sha256(b"paddock-challenge-v1" + note.encode()).hexdigest()

    def _open_challenges(self, entries: list[dict[str, Any]]) -> Counter[str]:
        """How many nonces were issued for each plan and not used."""
        used = {one["nonce"] for one in entries if one["kind"] == "result"}
        asked = [(n, one["plan"]) for n, one in enumerate(entries) if one["kind"] == "challenge"]
        return Counter(plan for number, plan in asked if self._nonce(number) not in used)

    def _issued(self, bundle: Bundle) -> bool:
        """Whether this board issued the nonce for this plan, and nobody has used it since."""
        entries = self.ledger.entries()
        nonce = bundle.start.nonce
        used = any(entry["kind"] == "result" and entry["nonce"] == nonce for entry in entries)
        plans = [n for n, one in enumerate(entries) if one["kind"] == "challenge" and one["plan"] == bundle.plan_digest]
        return not used and any(self._nonce(number) == nonce for number in plans)

    @contextmanager
    def _copy(self, path: Path) -> Iterator[Path]:
        """Copy what is signed into a folder that is gone after the block, unless the block moves it."""
        with tempfile.TemporaryDirectory(prefix=".new-", dir=self.folder / "bundles") as made:
            draft = Path(made) / "bundle"
            draft.mkdir()
            for name in SIGNED:
                shutil.copyfile(path / name, draft / name)
            yield draft


def _entry(bundle: Bundle, id: str, verdict: Verdict) -> dict[str, Any]:
    """A result as the ledger has it: no floats, no names of machines, no paths."""
    report = BundleReport(bundle, id)
    figures = report.averages.get("IQM") or (report.tasks[0].figures.iqm if len(report.tasks) == 1 else None)
    return {
        "kind": "result",
        "bundle": id,
        "plan": bundle.plan_digest,
        "nonce": bundle.start.nonce,
        "suite": bundle.plan.suite,
        "policy": bundle.plan.policy.name,
        "level": verdict.level,
        "replayed": verdict.replayed,
        "average": None if figures is None else repr(figures.value),
        "episodes": bundle.plan.episodes,
        "signer": report.signer,
        "time_s": str(int(time.time())),
    }


def _row(entries: list[dict[str, Any]], number: int, unused: Counter[str]) -> Row:
    entry = entries[number]
    same = [n for n, one in enumerate(entries) if one["kind"] == "result" and one["plan"] == entry["plan"]]
    fields = {name: entry[name] for name in ("plan", "suite", "policy", "level", "average", "episodes", "signer")}
    return Row(
        id=entry["bundle"],
        **fields,
        replayed=entry.get("replayed"),
        attempt=same.index(number) + 1,
        attempts=len(same) + unused[entry["plan"]],
        time_s=int(entry["time_s"]),
        entry=number,
    )


def _content_digest(path: Path) -> str:
    """SHA-256 over the digests of the signed files: the name of a bundle in the store."""
    whole = hashlib.sha256(b"paddock bundle 1\n")
    for name in SIGNED:
        part = hashlib.sha256()
        with (path / name).open("rb") as file:
            while chunk := file.read(_CHUNK):
                part.update(chunk)
        whole.update(part.digest())
    return whole.hexdigest()


def _refuse_names_of_this_machine(bundle: Bundle) -> None:
    """What is signed can't be cleaned, so a plan that names this machine or a home folder is refused."""
    plan = bundle.plan
    texts = [plan.suite, plan.policy.name]
    texts += [text for task in plan.tasks for text in (task.name, task.target, task.spec)]
    home, node = str(Path.home()), platform.node()
    for name in (name for name in (home, node) if len(name) > 3):
        if any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for text in texts):
            raise InvalidBundle(
                f"The plan names {name}, and a board is for others to read. Run it again with targets and policies "
                f"below the working folder.",
                reason="malformed",
            )
