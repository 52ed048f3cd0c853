"""The self-test bites: without the wall its attacks succeed. Tier auto and the promises rest on it."""

import functools
import os
import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from paddock.errors import SandboxUnavailable
from paddock.sandbox import promises as module
from paddock.sandbox.machine import Machine
from paddock.sandbox.plan import LAYERS, TIERS, Call, plan
from paddock.sandbox.policy import Policy
from paddock.sandbox.promises import Finding, holds, promises, self_test, strongest
from tests.sandbox.workers import backends, needs_linux

pytestmark = needs_linux

# Refused to an ordinary process too, by the kernel or because rights are always given up.
ALWAYS = {"read the parent's secrets"}


@pytest.mark.process
@backends
def test_the_sandbox_refuses_every_attack(backend):
    findings = self_test("sandbox", backend=backend)
    assert len(findings) >= 8 and [one for one in findings if not one.refused] == []


@pytest.mark.process
def test_the_landlock_tier_refuses_every_attack():
    findings = self_test("landlock")
    assert len(findings) >= 8 and [one for one in findings if not one.refused] == []


@pytest.mark.process
def test_without_a_wall_the_attacks_succeed():
    findings = self_test("sandbox", layers=frozenset())
    assert {one.attack for one in findings if one.refused} <= ALWAYS


# What each layer refuses by itself.
ALONE = {
    "namespaces": {"read a file", "write a file", "connect to this machine", "signal the parent"},
    "landlock": {"read a file", "write a file", "connect to this machine", "run a program"},
    "seccomp": {
        "connect to this machine",
        "start a process",
        "run a program",
        "make a user namespace",
        "listen on a port",
    },
}


@pytest.mark.process
@pytest.mark.parametrize("layer", ALONE)
def test_each_layer_alone_refuses_what_it_is_there_for(layer):
    findings = {one.attack: one for one in self_test("sandbox", layers=frozenset({layer}))}
    assert {attack for attack in ALONE[layer] if not findings[attack].refused} == set()


@pytest.mark.process
@pytest.mark.parametrize("layer", ["limits", "cgroup"])
def test_limits_refuse_none_of_these_attacks(layer):
    findings = self_test("sandbox", layers=frozenset({layer}))
    assert {one.attack for one in findings if one.refused} <= ALWAYS


@pytest.mark.process
def test_auto_takes_the_strongest_tier_that_holds(monkeypatch):
    assert strongest() == "sandbox" and plan(Call("a:b"), Policy(tier="auto")).tier == "sandbox"
    monkeypatch.setattr(module, "holds", lambda tier: tier == "landlock")
    assert plan(Call("a:b"), Policy(tier="auto")).tier == "landlock"


def test_auto_refuses_when_nothing_holds_and_says_why(monkeypatch):
    leak = Finding("read a file", False, "succeeded")
    monkeypatch.setattr(module, "self_test", lambda tier: [leak])
    with pytest.raises(SandboxUnavailable, match="read a file"):
        strongest()
    poorer = replace(Machine.here(), landlock_abi=0)
    monkeypatch.setattr(Machine, "here", classmethod(lambda cls: poorer))
    with pytest.raises(SandboxUnavailable, match="Landlock"):
        strongest()


@pytest.mark.process
def test_it_runs_once_per_process():
    assert self_test("landlock")[0] is self_test("landlock")[0]
    assert holds("landlock")


@pytest.mark.process
def test_a_wall_that_does_not_go_up_is_a_finding(monkeypatch):
    module._findings.cache_clear()
    broken = replace(Machine.here(), bwrap="/bin/false")
    monkeypatch.setattr(Machine, "here", classmethod(lambda cls: broken))
    try:
        (finding,) = self_test("sandbox", backend="bwrap")
        assert not finding.refused and "bubblewrap failed" in finding.how
    finally:
        module._findings.cache_clear()


@pytest.mark.parametrize("tier", TIERS)
def test_promises_name_layers_of_their_tier(tier):
    for one in promises(tier):
        assert set(one.by) <= TIERS[tier] | {"lock", "launch"}, one
        assert bool(one.by) == one.held, one


def test_promises_say_what_is_left_open():
    """Each of these was found by an attack that the wall can't stop."""
    landlock = {one.key: one for one in promises("landlock")}
    assert "which processes there are" in landlock["neighbours-safe"].but
    with_programs = {one.key: one for one in promises("sandbox", policy=Policy(programs=("/bin/true",)))}
    assert not with_programs["no-programs"].held and "can read" in with_programs["no-programs"].but


def test_the_stronger_tier_promises_more():
    kept = {tier: {one.key for one in promises(tier) if one.held} for tier in TIERS}
    assert kept["landlock"] < kept["sandbox"]
    assert {"files-hidden", "no-network", "no-processes", "memory-limited", "ends-with-us"} <= kept["sandbox"]


def test_nothing_is_promised_where_the_tier_can_not_be_had():
    poorer = replace(Machine.here(), seccomp=False)
    assert not any(one.held for one in promises("sandbox", poorer))
    assert all("seccomp" in one.but for one in promises("landlock", poorer))


def test_without_cgroups_memory_of_several_processes_is_not_promised():
    poorer = replace(Machine.here(), cgroups=())
    by_key = lambda policy: {one.key: one for one in promises("sandbox", poorer, policy)}  # noqa: E731
    assert by_key(Policy())["memory-limited"].by == ("limits", "seccomp")
    assert not by_key(Policy(processes=3))["memory-limited"].held


def test_there_are_no_other_layers():
    assert set().union(*TIERS.values()) == set(LAYERS)


def test_threads_that_ask_at_once_share_one_test(monkeypatch):
    tests, second = [], threading.Barrier(2)

    def one(*asked):
        tests.append(asked)
        with suppress(threading.BrokenBarrierError):
            second.wait(0.3)  # would be passed if another came
        return (Finding("read a file", True, "refused"),)

    monkeypatch.setattr(module, "_findings", functools.lru_cache(one))
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: self_test("sandbox"), range(32)))
    assert len(tests) == 1
    assert all(one == found[0] for one in found)


@pytest.mark.process
def test_a_process_with_very_many_descriptors_can_be_tested():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip(f"no more than {hard} descriptors may be open: runs where 2048 may")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        module._findings.cache_clear()
        assert all(one.refused for one in self_test("sandbox"))
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
