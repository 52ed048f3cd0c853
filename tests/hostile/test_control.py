"""Without a wall the canaries are hit: what these attacks do not harm there, a wall could not be praised for."""

import pytest

from paddock.bench.hostile.score import run_attack

from .tiers import ROOT, attacks, linux_only

pytestmark = linux_only


@pytest.mark.process
@pytest.mark.parametrize("attack", [one for one in attacks() if one.values[0].control is not None])
def test_canary_is_hit_without_a_wall(attack):
    if attack.control_root and not ROOT:
        pytest.skip("the system itself denies this to an ordinary user; runs as root")
    verdict = run_attack(attack, attack.control)
    assert attack.canary in verdict.hits, f"{attack.title}: {verdict.detail} {verdict.calls}"


@pytest.mark.process
def test_harmless_environment_hits_nothing_anywhere(monkeypatch):
    from paddock.bench.hostile.attack import Attack
    from paddock.bench.hostile.attacks.attempt import HARMLESS

    monkeypatch.delenv("PADDOCK_HOME")  # a user has none
    quiet = Attack(code="F00", group="files", title="nothing", kind="env", target=HARMLESS, canary="file")
    verdict = run_attack(quiet, "process")
    assert (verdict.hits, verdict.cause) == ({}, "contained")
