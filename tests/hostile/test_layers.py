"""Each layer alone stops the attack that it is there for; without it, and any other, that attack succeeds."""

import json
import os
import socket
from pathlib import Path

import pytest

from paddock.bench.hostile.canaries import Canaries
from paddock.bench.hostile.score import fill_places
from paddock.sandbox import Call, Machine, Policy, launch

from .tiers import ROOT, linux_only

pytestmark = linux_only

WORKER = str(Path(__file__).with_name("probe_worker.py"))
# What a layer is nothing without. Identity: of the files that are shown, those that only root may read stay root's.
BENEATH = {"identity": frozenset({"namespaces"})}
# layer, attack, what it is told, policy
PROBES = [
    ("namespaces", "files:ReadFile", {"path": "$secret"}, {}),
    ("namespaces", "network:Connect", {"host": "127.0.0.1", "port": "$port"}, {}),
    ("namespaces", "network:ConnectUnix", {"path": "$abstract", "abstract": 1}, {}),
    ("namespaces", "processes:Kill", {"bystander": "$bystander"}, {}),
    ("identity", "files:ReadFile", {"path": "$private"}, {"read": "$home"}),
    ("limits", "resources:TakeDescriptors", {"count": 900}, {}),
    ("limits", "files:SparseFile", {"folder": "$out", "name": "$name", "gigabytes": 1024}, {}),
    ("cgroup", "resources:TakeSharedMemory", {"megabytes": 600}, {"memory_mb": 300}),
    ("cgroup", "resources:TakeThreads", {"count": 300}, {"threads": 64}),
    ("landlock", "files:ReadFile", {"path": "$secret"}, {}),
    ("landlock", "files:WriteFile", {"folders": ["$out"], "name": "$name"}, {}),
    ("landlock", "network:Connect", {"host": "127.0.0.1", "port": "$port"}, {}),
    ("landlock", "network:ConnectUnix", {"path": "$abstract", "abstract": 1}, {}),
    ("landlock", "processes:Kill", {"bystander": "$bystander"}, {}),
    ("seccomp", "network:Connect", {"host": "127.0.0.1", "port": "$port"}, {}),
    ("seccomp", "network:OpenSocket", {"socket": [16, 3, 0]}, {}),
    ("seccomp", "processes:NestedNamespaces", {}, {}),
    ("seccomp", "processes:Shell", {"marker": "$marker"}, {}),
    ("seccomp", "processes:LeaveGroup", {}, {}),
    ("seccomp", "kernel:Ring", {}, {}),
    ("seccomp", "kernel:OtherInstructionSet", {}, {}),
]


def attempted(layers, target, told, policy):
    """How the attempt went behind these layers alone; "ended" if it did not live to tell."""
    with Canaries() as canaries:
        private = Path(canaries.places["home"], "private.txt")
        private.write_text("for its owner's eyes")
        private.chmod(0o600)
        places = {**canaries.places, "private": str(private)}
        told, policy = fill_places(told, places), fill_places(policy, places)
        given = {name: (value,) if name == "read" else value for name, value in policy.items()}
        here, there = socket.socketpair()
        here.settimeout(30)
        with here, there:
            call = Call("probe_worker:main", (target, told), {"probe_worker": WORKER})
            child = launch(call, Policy(**given), socket_fd=there.fileno(), layers=frozenset(layers))
            there.close()
            try:
                said = here.recv(1 << 16)
            finally:
                child.kill()
        return json.loads(said)["attack"] if said else "ended"


def needed(layer):
    if layer == "identity" and not ROOT:
        pytest.skip("an ordinary user has one identity; runs as root")
    if layer == "cgroup" and not {"memory", "pids"} <= {one.name for one in Machine.here().cgroups}:
        pytest.skip("this user may make no control groups; runs as root")


@pytest.mark.process
@pytest.mark.parametrize(("layer", "target", "told", "policy"), PROBES)
def test_layer_alone_stops_the_attack_it_is_there_for(layer, target, told, policy):
    needed(layer)
    found = attempted({layer, *BENEATH.get(layer, ())}, target, told, policy)
    assert found == "ended" or found.startswith("denied"), found


@pytest.mark.process
@pytest.mark.parametrize(("layer", "target", "told", "policy"), PROBES)
def test_without_that_layer_the_same_attack_succeeds(layer, target, told, policy):
    needed(layer)
    if target == "kernel:OtherInstructionSet" and os.uname().machine != "x86_64":
        pytest.skip("only x86-64 has a second set of system calls (x32); runs there")
    assert attempted(BENEATH.get(layer, ()), target, told, policy) == "succeeded"
