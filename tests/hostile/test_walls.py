"""Every attack on every wall of this machine: no canary harmed, no neighbour affected, right cause, nothing left."""

import pytest

from paddock.bench.hostile.score import promises, run_attack

from .tiers import WALLS, attacks, linux_only, need

pytestmark = linux_only


@pytest.mark.process
@pytest.mark.parametrize("attack", attacks())
@pytest.mark.parametrize("tier", WALLS)
def test_attack_is_contained(tier, attack):
    need(tier)
    verdict = run_attack(attack, tier)
    if promises(tier, attack):
        assert verdict.hits == {}, f"{attack.title}: {verdict.detail}"
    assert verdict.contained == (not verdict.hits)
    if verdict.contained:
        assert verdict.cause in attack.expected, f"{attack.title}: {verdict.detail}"
        assert verdict.cleaned_s <= attack.clean_s
