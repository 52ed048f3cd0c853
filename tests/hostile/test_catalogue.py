"""The catalogue is data that must fit: to its attacks' classes, to the canaries, to the promises of the tiers."""

import importlib
import pkgutil
from collections import Counter

import pytest

from paddock.bench.hostile import attacks as attacks_package
from paddock.bench.hostile.attack import CANARIES, ENDINGS, GROUPS
from paddock.bench.hostile.attacks.imports import ATTEMPTS, module_source
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
    assert sum("wrapper" in attack.target.split()[0] for attack in ATTACKS) >= 4


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.code)
def test_row_fits(attack):
    assert attack.canary in CANARIES
    assert attack.expected
    assert attack.expected <= ENDINGS.keys()
    assert attack.promise in {*OURS, *(one.key for one in promises("sandbox"))}
    assert (attack.control is None) == bool(attack.not_shown), "an attack that can't be shown says why"
    Policy(**{name: value for name, value in attack.policy.items() if name not in ("read", "write")})
    kind, _, what = attack.target.partition(" ")
    if kind in ("env", "wrapper"):
        module, _, name = what.partition(":")
        assert hasattr(importlib.import_module(f"{attacks_package.__name__}.{module}"), name)
    elif kind in ("module", "modular-wrapper"):
        compile(module_source(what, PLACES), what, "exec")
    else:
        assert kind == "spec"


def test_every_attempt_of_the_modules_is_used():
    used = {attack.target.partition(" ")[2] for attack in ATTACKS}
    assert set(ATTEMPTS) <= used


def test_every_class_of_attack_is_in_the_catalogue():
    used = {attack.target.partition(" ")[2] for attack in ATTACKS}
    found = set()
    for module in pkgutil.iter_modules(attacks_package.__path__):
        loaded = importlib.import_module(f"{attacks_package.__name__}.{module.name}")
        for name, value in vars(loaded).items():
            if isinstance(value, type) and value.__module__ == loaded.__name__ and "attempt" in dir(value):
                found.add(f"{module.name}:{name}")
    kept = {"attempt:Hostile", "wrappers:HostileWrapper", "wrappers:Harmless"}  # what others are built on
    assert found - kept - used == set()
