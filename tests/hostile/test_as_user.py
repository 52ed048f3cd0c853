"""The same for an ordinary user, where root runs the tests: uid 4000, by the command that a user would type."""

import json
import sys

import pytest

from paddock.bench.hostile.attack import GROUPS

from ..sandbox.as_user import as_user
from .tiers import QUICK, ROOT, WALLS, linux_only, need

pytestmark = [
    linux_only,
    pytest.mark.skipif(
        not ROOT, reason="this is an ordinary user: the same tests run directly, without a change of user"
    ),
]


def hostile(*arguments):
    done = as_user([sys.executable, "-m", "paddock", "hostile", "--json", *arguments], timeout_s=1200)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def escaped(results):
    return [
        (one["code"], one["title"], one["cause"], one["detail"]) for one in results if one["broken"] and one["promised"]
    ]


@pytest.mark.process
@pytest.mark.parametrize("tier", WALLS)
def test_one_attack_of_each_kind_is_contained_for_an_ordinary_user(tier):
    need(tier)
    chosen = [word for code in QUICK[:4] for word in ("--attack", code)]
    assert escaped(hostile("--tier", tier, *chosen)[tier]) == []


@pytest.mark.full
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("tier", WALLS)
def test_all_attacks_are_contained_for_an_ordinary_user(tier, group):
    need(tier)
    assert escaped(hostile("--tier", tier, "--group", group)[tier]) == []


@pytest.mark.full
@pytest.mark.parametrize("group", GROUPS)
def test_canaries_are_hit_without_a_wall_for_an_ordinary_user(group):
    from paddock.bench.hostile.catalogue import ATTACKS

    shown = {
        tier: [one for one in ATTACKS if one.group == group and one.control == tier and not one.control_root]
        for tier in ("process", "none")
    }
    missed = []
    for tier, some in shown.items():
        if not some:
            continue
        chosen = [word for one in some for word in ("--attack", one.code)]
        results = {one["code"]: one for one in hostile("--tier", tier, *chosen)[tier]}
        missed += [
            (one.code, results[one.code]["detail"]) for one in some if one.canary not in results[one.code]["hits"]
        ]
    assert missed == []
