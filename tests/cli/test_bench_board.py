"""`paddock bench challenge`, `submit`, `list` and `show`: real runs on a board of their own."""

import json
from pathlib import Path

import pytest

from paddock.bench.ledger import verify_proof
from paddock.trust.keys import PublicKey


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))


@pytest.fixture
def play(paddock):
    def play(name, *words):
        done = paddock(
            "bench", "run", "smoke", "--policy", "random", "--episodes", "2", "--out", name, *words, "--json"
        )
        assert done.code == 0
        return done.document

    return play


def test_from_a_challenge_to_a_proved_place_on_the_board(paddock, play):
    plan = play("try", "--seed", "1")["plan"]
    nonce = paddock("bench", "challenge", "try", "--json").document["nonce"]
    assert play("run", "--nonce", nonce)["plan"] == plan
    assert paddock("bench", "submit", "try", "--json").document["level"] == "L2"
    entered = paddock("bench", "submit", "run", "--json").document
    assert (entered["level"], entered["attempt"], entered["attempts"]) == ("L2+", 2, 2)

    listed = paddock("bench", "list", "--checkpoint", "kept", "--json").document
    assert {one["id"] for one in listed["results"]} >= {entered["id"]}
    shown = paddock("bench", "show", entered["id"][:10], "--proof", "proof.json")
    assert "2 of 2 of its plan" in shown.out
    assert "All attempts at this plan" in shown.out
    proof = json.loads(Path("proof.json").read_text())
    assert verify_proof(proof, PublicKey.parse(listed["key"]))["bundle"] == entered["id"]

    assert "nothing was removed or changed" in paddock("bench", "list", "--since", "kept").out
    assert paddock("bench", "list", "--since", "kept", "--board", "another").code == 1


def test_what_was_replayed_in_a_sample_says_so(paddock, play):
    play("run")
    assert (
        "L2: the environments answer as the record says, in a sample"
        in paddock("bench", "verify", "run", "--sample", "1").out
    )
    assert paddock("bench", "submit", "run", "--sample", "1", "--json").document["replayed"] == 1
    assert "L2, sample" in paddock("bench", "list").out
    play("whole", "--seed", "1")
    entered = paddock("bench", "submit", "whole", "--json").document
    assert "4 of 4 episodes" in paddock("bench", "show", entered["id"]).out


def test_a_record_that_was_changed_is_not_entered(paddock, play):
    play("run")
    log = Path("run", "episodes.log")
    log.write_bytes(log.read_bytes()[:-1] + b"\0")
    refused = paddock("bench", "submit", "run", "--json")
    assert refused.code == 1
    assert refused.document["error"]["code"] in ("TAMPERED", "MALFORMED")
    assert paddock("bench", "list", "--json").document["results"] == []


def test_what_is_not_there_is_one_line(paddock):
    for words in (["list", "--board", "another"], ["show", "ff", "--board", "another"]):
        found = paddock("bench", *words)
        assert found.code == 1 and "no leaderboard in another" in found.err
        assert not Path("another").exists()
    for words in (["submit", "nowhere"], ["show", "ff"], ["challenge", "ff"], ["list", "--since", "nowhere"]):
        found = paddock("bench", *words)
        assert found.code == 1
        assert len(found.err.splitlines()) == 1
