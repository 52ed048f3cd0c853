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
    ("namespaces", "files:read_file", {"path": "$secret"}, {}),
    ("namespaces", "network:connect", {"host": "127.0.0.1", "port": "$port"}, {}),
    ("namespaces", "network:connect_unix", {"path": "$abstract", "abstract": 1}, {}),
    ("namespaces", "processes:kill", {"bystander": "$bystander"}, {}),
    ("identity", "files:read_file", {"path": "$private"}, {"read": "$home"}),
    ("limits", "resources:take_descriptors", {"count": 900}, {}),
    ("limits", "files:make_sparse_file", {"folder": "$out", "name": "$name", "gigabytes": 1024}, {}),
    ("cgroup", "resources:take_shared_memory", {"megabytes": 600}, {"memory_mb": 300}),
    ("cgroup", "resources:start_threads", {"count": 300}, {"threads": 64}),
    ("landlock", "files:read_file", {"path": "$secret"}, {}),
    ("landlock", "files:write_file", {"folders": ["$out"], "name": "$name"}, {}),
    ("landlock", "network:connect", {"host": "127.0.0.1", "port": "$port"}, {}),
    ("landlock", "network:connect_unix", {"path": "$abstract", "abstract": 1}, {}),
    ("landlock", "processes:kill", {"bystander": "$bystander"}, {}),
    ("seccomp", "network:connect", {"host": "127.0.0.1", "port": "$port"}, {}),
    ("seccomp", "network:open_socket", {"kind": [16, 3, 0]}, {}),
    ("seccomp", "processes:make_namespace", {}, {}),
    ("seccomp", "processes:run_shell", {"marker": "$marker"}, {}),
    ("seccomp", "processes:leave_session", {}, {}),
    ("seccomp", "kernel:make_ring", {}, {}),
    ("seccomp", "kernel:make_32_bit_call", {}, {}),
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
    if target == "kernel:make_32_bit_call" and os.uname().machine != "x86_64":
        pytest.skip("only x86-64 has a second set of system calls (x32); runs there")
    assert attempted(BENEATH.get(layer, ()), target, told, policy) == "succeeded"
