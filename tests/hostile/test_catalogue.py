"""The catalogue is data that must fit: to its attacks' classes, to the canaries, to the promises of the tiers."""

import importlib
import pkgutil
from collections import Counter

import pytest

from paddock.bench.hostile import attacks as attacks_package
from paddock.bench.hostile.attack import CANARIES, ENDINGS, GROUPS
from paddock.bench.hostile.attacks import attempt
from paddock.bench.hostile.attacks.imports import module_source
from paddock.bench.hostile.catalogue import ATTACKS
from paddock.bench.hostile.score import OURS
from paddock.sandbox.policy import Policy
from paddock.sandbox.promises import promises

PLACES = {
    "marker": "/m",
    "secret": "/s",
    "beside": "b.txt",
    "host": "127.0.0.1",
    "port": 1,
    "plant": "/p",
    "seconds": 1,
}


def test_catalogue_is_large_and_its_codes_are_unique():
    assert len(ATTACKS) >= 64
    assert len({attack.code for attack in ATTACKS}) == len(ATTACKS)


def test_every_group_has_at_least_eight_attacks():
    counts = Counter(attack.group for attack in ATTACKS)
    assert {group: counts[group] for group in GROUPS if counts[group] < 8} == {}


def test_wrappers_are_among_them():
    assert sum("wrapper" in attack.kind for attack in ATTACKS) >= 4


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.code)
def test_row_fits(attack):
    assert attack.canary in CANARIES
    assert attack.expected
    assert attack.expected <= ENDINGS.keys()
    assert attack.promise in {*OURS, *(one.key for one in promises("sandbox"))}
    assert (attack.control is None) == bool(attack.no_control), "an attack that can't be shown says why"
    Policy(**{name: value for name, value in attack.policy.items() if name not in ("read", "write")})
    if attack.kind in ("env", "wrapper"):
        module, _, name = attack.target.partition(":")
        assert module.startswith(f"{attacks_package.__name__}.")
        assert hasattr(importlib.import_module(module), name)
    elif attack.kind in ("module", "module wrapper"):
        compile(module_source(attack.target, PLACES), attack.code, "exec")
    else:
        assert attack.kind == "spec"


def test_every_class_of_attack_is_in_the_catalogue():
    used = {attack.target for attack in ATTACKS}
    found = set()
    for module in pkgutil.iter_modules(attacks_package.__path__):
        loaded = importlib.import_module(f"{attacks_package.__name__}.{module.name}")
        for name, value in vars(loaded).items():
            if isinstance(value, type) and value.__module__ == loaded.__name__ and "attempt" in dir(value):
                found.add(f"{loaded.__name__}:{name}")
    foundations = {f"{attempt.__name__}:{name}" for name in ("Hostile", "HostileWrapper")}
    assert found - foundations - used == set()
