"""The ledger and the board on it: what was entered stays, is proved, and no attempt is hidden."""

import base64
import json
import sqlite3
import threading
from pathlib import Path

import pytest

from paddock.bench.bundle import read_bundle
from paddock.bench.leaderboard import Board
from paddock.bench.ledger import Ledger, open_checkpoint, verify_proof
from paddock.bench.suites import Suite, SuiteTask
from paddock.bench.verify import Verdict
from paddock.errors import InvalidBundle
from paddock.trust.keys import SigningKey
from tests.bench.bundles import CARTPOLES, write_bundle

RETURNS = [1.0, 2.0, 3.0, 4.0]


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", SigningKey.generate())
    yield ledger
    ledger.close()


@pytest.fixture
def board(tmp_path):
    with Board(tmp_path / "board") as board:
        yield board


def believe(path, nonce, registered):
    return Verdict("L2+" if registered else "L2", None, "")


def fill(ledger, count):
    for number in range(count):
        assert ledger.append({"kind": "test", "n": number}) == number


def alter(path, *statements):
    """What someone does who has the file."""
    with sqlite3.connect(path) as database:
        database.executescript("DROP TRIGGER entries_stay; DROP TRIGGER entries_keep;")
        for statement in statements:
            database.execute(statement)
    database.close()


def test_every_entry_has_a_proof_that_verifies_elsewhere(ledger):
    fill(ledger, 7)
    for number in range(7):
        document = json.loads(json.dumps(ledger.prove(number)))
        assert verify_proof(document, ledger.key) == {"kind": "test", "n": number}


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("entry", {"kind": "test", "n": 9}, "tampered"),
        ("number", 2, "tampered"),
        ("proof", [], "tampered"),
        ("proof", ["zz"], "malformed"),
        ("proof", [7], "malformed"),
        ("checkpoint", "", "untrusted"),
        ("entry", 3, "malformed"),
    ],
)
def test_a_changed_proof_shows_nothing(ledger, field, value, reason):
    fill(ledger, 5)
    with pytest.raises(InvalidBundle) as caught:
        verify_proof({**ledger.prove(3), field: value}, ledger.key)
    assert caught.value.reason == reason


def test_a_checkpoint_of_another_key_is_not_believed(ledger):
    fill(ledger, 2)
    with pytest.raises(InvalidBundle, match="not signed by the ledger's key"):
        open_checkpoint(ledger.checkpoint(), SigningKey.generate().public)


def test_a_checkpoint_is_a_signed_note(ledger):
    fill(ledger, 3)
    text, _, signature = ledger.checkpoint().partition("\n\n")
    origin, size, root = text.split("\n")
    assert (origin, size, base64.b64decode(root)) == ("paddock/leaderboard", "3", ledger.check().root)
    assert signature.startswith("— paddock/leaderboard ")


def test_entries_can_not_be_changed_through_the_database(ledger, tmp_path):
    fill(ledger, 2)
    with sqlite3.connect(tmp_path / "l.sqlite") as database:
        for statement in ("DELETE FROM entries", "UPDATE entries SET entry = '{}'"):
            with pytest.raises(sqlite3.IntegrityError, match="append only"):
                database.execute(statement)
    database.close()


@pytest.mark.parametrize(
    "statements",
    [
        ["DELETE FROM entries WHERE number = 4"],
        ["DELETE FROM entries WHERE number = 1"],
        ['UPDATE entries SET entry = \'{"kind":"test","n":7}\' WHERE number = 1'],
        ["UPDATE entries SET number = 9 WHERE number = 1", "UPDATE entries SET number = 1 WHERE number = 2"],
        ["DELETE FROM checkpoints WHERE size = 5"],
    ],
)
def test_a_ledger_whose_entries_were_changed_is_found_out(ledger, tmp_path, statements):
    fill(ledger, 5)
    alter(tmp_path / "l.sqlite", *statements)
    with pytest.raises(InvalidBundle) as caught:
        ledger.check()
    assert caught.value.reason == "tampered"
    with pytest.raises(InvalidBundle):
        ledger.append({"kind": "test"})


@pytest.mark.parametrize("kept", [[0, 1, 2, 4], [0, 2, 1, 3, 4], [0, 1], [4, 3, 2, 1, 0, 5]])
def test_whoever_keeps_a_checkpoint_notices_even_its_own_keeper(tmp_path, kept):
    """The owner of the ledger, with its key, makes it again without an entry, or in another order."""
    key = SigningKey.generate()
    honest, forged = Ledger(tmp_path / "a", key), Ledger(tmp_path / "b", key)
    fill(honest, 4)
    old = honest.checkpoint()
    honest.check(since=old)
    for number in kept:
        forged.append({"kind": "test", "n": number})
    forged.check()
    with pytest.raises(InvalidBundle, match="The ledger was changed"):
        forged.check(since=old)
    fill_more = [honest.append({"kind": "test", "n": number}) for number in range(3)]
    assert fill_more == [4, 5, 6]
    honest.check(since=old)
    honest.close(), forged.close()


def test_two_writers_lose_nothing(tmp_path):
    key = SigningKey.generate()

    def write():
        ledger = Ledger(tmp_path / "l.sqlite", key)
        for _ in range(10):
            ledger.append({"kind": "test"})
        ledger.close()

    Ledger(tmp_path / "l.sqlite", key).close()
    threads = [threading.Thread(target=write) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    ledger = Ledger(tmp_path / "l.sqlite", key)
    assert len(ledger.check()) == 20
    ledger.close()


def test_a_result_is_kept_whole_and_listed(board, tmp_path):
    bundle = write_bundle(tmp_path / "run", [RETURNS])
    (tmp_path / "run" / "notes.json").write_text('{"host": "secret"}')
    row = board.submit(tmp_path / "run", believe)
    assert (row.level, row.average, row.attempt, row.attempts) == ("L2", "2.5", 1, 1)
    assert board.rows() == [row]
    assert board.bundle(row).digest == bundle.digest
    stored = board.folder / "bundles" / row.id
    assert sorted(path.name for path in stored.iterdir()) == [
        "episodes.log",
        "plan.json",
        "start.json",
        "statement.json",
    ]


def test_a_result_that_does_not_verify_is_not_entered(board, tmp_path):
    write_bundle(tmp_path / "run", [RETURNS])
    with pytest.raises(InvalidBundle, match="step 3") as caught:
        board.submit(tmp_path / "run", lambda *_: Verdict("L1", "irreproducible", "episode 0, step 3: differs"))
    assert caught.value.reason == "irreproducible"
    assert board.ledger.entries() == []


def test_what_is_kept_is_what_was_verified(board, tmp_path):
    """The original changes while it is verified."""
    digest = write_bundle(tmp_path / "run", [RETURNS]).digest

    def verify(path, nonce, registered):
        log = tmp_path / "run" / "episodes.log"
        log.write_bytes(log.read_bytes()[::-1])
        return believe(path, nonce, registered)

    assert board.bundle(board.submit(tmp_path / "run", verify)).digest == digest
    assert len(list((board.folder / "bundles").iterdir())) == 1


def test_the_same_bundle_is_entered_once(board, tmp_path):
    write_bundle(tmp_path / "run", [RETURNS])
    board.submit(tmp_path / "run", believe)
    with pytest.raises(InvalidBundle, match="on the board already"):
        board.submit(tmp_path / "run", believe)


def test_best_of_many_is_seen(board, tmp_path):
    """Three runs of one plan: each row says that there were three."""
    for number, returns in enumerate(([1.0] * 4, [9.0] * 4, [2.0] * 4)):
        write_bundle(tmp_path / f"run{number}", [returns], nonce=bytes([number]) * 32)
        board.submit(tmp_path / f"run{number}", believe)
    assert [(row.average, row.attempt, row.attempts) for row in board.rows()] == [
        ("9.0", 2, 3),
        ("2.0", 3, 3),
        ("1.0", 1, 3),
    ]


def test_a_nonce_of_the_board_makes_a_registered_run_once(board, tmp_path):
    plan = write_bundle(tmp_path / "try", [RETURNS]).plan_digest
    unused, nonce = board.challenge(plan), board.challenge(plan)
    assert unused != nonce
    write_bundle(tmp_path / "run", [RETURNS], nonce=bytes.fromhex(nonce))
    row = board.submit(tmp_path / "run", believe)
    assert (row.level, row.attempts) == ("L2+", 2)  # the nonce that was not used counts
    write_bundle(tmp_path / "again", [[4.0] * 4], nonce=bytes.fromhex(nonce))
    assert board.submit(tmp_path / "again", believe).level == "L2"


def test_a_nonce_for_another_plan_does_not_count(board, tmp_path):
    nonce = board.challenge("ab" * 32)
    write_bundle(tmp_path / "run", [RETURNS], nonce=bytes.fromhex(nonce))
    assert board.submit(tmp_path / "run", believe).level == "L2"


def test_a_stored_bundle_that_was_changed_is_noticed(board, tmp_path):
    write_bundle(tmp_path / "run", [RETURNS])
    row = board.submit(tmp_path / "run", believe)
    log = board.folder / "bundles" / row.id / "episodes.log"
    log.write_bytes(log.read_bytes() + b"\0")
    with pytest.raises(InvalidBundle, match="not what was submitted"):
        board.bundle(row)


@pytest.mark.parametrize("place", ["policy", "task"])
def test_a_plan_that_names_a_home_is_refused(board, tmp_path, place):
    secret = f"{Path.home()}/secret/agent.py"
    suite = Suite("s", [SuiteTask("CartPole-v1", name=secret if place == "task" else "", episodes=4)])
    write_bundle(tmp_path / "run", [RETURNS], suite=suite, policy=secret if place == "policy" else "mine")
    with pytest.raises(InvalidBundle, match="below the working folder"):
        board.submit(tmp_path / "run", believe)


def test_a_board_opened_again_has_the_same_key_and_entries(tmp_path):
    write_bundle(tmp_path / "run", [RETURNS], suite=CARTPOLES)
    with Board(tmp_path / "b") as board:
        row, note = board.submit(tmp_path / "run", believe), board.ledger.checkpoint()
    with Board(tmp_path / "b") as board:
        board.ledger.check(since=note)
        assert board.find(row.id[:12]) == row
        assert read_bundle(board.folder / "bundles" / row.id).complete
