"""exceeds and differences: their laws, and what counts as wider for each field."""

from dataclasses import fields, replace

import pytest
from hypothesis import given

from paddock.sandbox.policy import DEFAULT, Change, Policy, compare_policies, covers, find_excess
from tests.sandbox.policies import OTHER, policies

# narrow and wide values of each field: the second allows all of the first, and more
STEPS = {
    "tier": [("sandbox", "auto"), ("auto", "landlock")],
    "read": [((), ("/a",)), (("/a/b",), ("/a",)), (("/a",), ("/b", "/a"))],
    "write": [((), ("/a",)), (("/a/b",), ("/a",))],
    "scratch_mb": [(1, 2)],
    "hosts": [((), ("x:1",)), (("x:1",), ("*:1",)), (("x:1", "y:1"), ("*:1",))],
    "cassette": [(None, "/tape")],
    "programs": [((), ("/bin/ls",)), (("/bin/ls",), ("/bin",))],
    "processes": [(1, 2)],
    "threads": [(1, 2)],
    "memory_mb": [(1, 2)],
    "cpu_s": [(1.0, 2.0), (1e9, None)],
    "call_s": [(1.0, 1.5)],
    "call_cpu_s": [(1.0, 1.5)],
    "start_s": [(1.0, 1.5)],
    "descriptors": [(1, 2)],
    "output_kb": [(1, 2)],
    "variables": [({}, {"A": "1"}), ({"B": "2"}, {"A": "1", "B": "2"})],
    "devices": [((), ("/dev/kvm",))],
    "fresh": [(True, False)],
    "reward_range": [((0, 1), (0, 2)), ((0, 1), (-1, 1)), ((0, 1), (float("-inf"), float("inf")))],
    "info_kb": [(1, 2)],
    "workspaces": [(0, 1), (1, 2)],
    "workspace": [(DEFAULT, Policy(hosts=("x:1",))), (Policy(memory_mb=1), DEFAULT)],
}
CASES = [(name, narrow, wide) for name, pairs in STEPS.items() for narrow, wide in pairs]
BASE = replace(DEFAULT, workspaces=1, workspace=DEFAULT)


def test_every_field_is_compared():
    assert list(STEPS) == [field.name for field in fields(Policy)]


@pytest.mark.parametrize(("name", "narrow", "wide"), CASES)
def test_more_of_a_field_is_wider_and_less_is_narrower(name, narrow, wide):
    low, high = replace(BASE, **{name: narrow}), replace(BASE, **{name: wide})
    assert find_excess(low, high) == []
    assert len(find_excess(high, low)) >= 1
    assert {change.direction for change in compare_policies(low, high)} == {"wider"}
    assert {change.direction for change in compare_policies(high, low)} == {"narrower"}


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("read", ("/a",), ("/b",)),
        ("read", ("/a",), ("/ab",)),
        ("hosts", ("x:1",), ("x:2",)),
        ("hosts", ("*:1",), ("x:2",)),
        ("variables", {"A": "1"}, {"A": "2"}),
        ("reward_range", (0, 2), (-1, 1)),
        ("cassette", "/one", "/other"),
    ],
)
def test_a_change_can_be_wider_and_narrower_at_once(name, one, other):
    old, new = replace(BASE, **{name: one}), replace(BASE, **{name: other})
    assert [change.direction for change in compare_policies(old, new)] == ["wider", "narrower"]


@given(policies())
def test_no_policy_exceeds_itself(policy):
    assert find_excess(policy, policy) == []
    assert compare_policies(policy, policy) == []


@given(policies(), policies(), policies())
def test_what_is_within_something_within_a_third_is_within_the_third(a, b, c):
    if not find_excess(a, b) and not find_excess(b, c):
        assert find_excess(a, c) == []


@given(policies(), policies(), policies())
def test_within_is_transitive_along_a_chain_that_exists(a, b, c):
    b = widened(a, b)
    c = widened(b, c)
    assert find_excess(a, b) == find_excess(b, c) == find_excess(a, c) == []


def widened(one, other):
    """A policy that allows what either does."""
    values = {
        name: (*getattr(one, name), *getattr(other, name)) for name in ("read", "write", "programs", "devices", "hosts")
    }
    for name in (
        "scratch_mb",
        "processes",
        "threads",
        "memory_mb",
        "descriptors",
        "output_kb",
        "info_kb",
        "call_s",
        "call_cpu_s",
        "start_s",
    ):
        values[name] = max(getattr(one, name), getattr(other, name))
    return replace(
        one,
        **values,
        tier="landlock",
        cpu_s=None,
        reward_range=(-3, 3),
        workspaces=max(one.workspaces, other.workspaces),
        workspace=one.workspace if one.workspaces else other.workspace,
    )


@given(policies(), policies())
def test_directions_agree_with_exceeds(old, new):
    directions = [change.direction for change in compare_policies(old, new)]
    assert ("wider" in directions) == bool(find_excess(new, old))
    assert ("narrower" in directions) == bool(find_excess(old, new))
    assert directions == sorted(directions, reverse=True)


@given(policies(), policies())
def test_policies_without_a_difference_are_equal_once_written_the_same_way(old, new):
    assert (compare_policies(old, new) == []) == (normal(old) == normal(new))


def normal(policy):
    """The one way to write down what the policy allows."""

    def least(paths, besides=()):
        kept = {"/" + path.lstrip("/") for path in paths}
        others = [*kept, *("/" + path.lstrip("/") for path in besides)]
        return {
            path
            for path in kept
            if not any(covers(o, path) and (o != path or o in others[len(kept) :]) for o in others)
        }

    hosts = {h for h in policy.hosts if h.startswith("*") or f"*:{h.rpartition(':')[2]}" not in policy.hosts}
    inner = normal(policy.workspace) if policy.workspaces else None
    plain = {field.name: getattr(policy, field.name) for field in fields(policy)}
    paths = {name: least(plain[name]) for name in ("write", "programs", "devices")}
    return {**plain, **paths, "read": least(policy.read, policy.write), "hosts": hosts, "workspace": inner}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Policy(read=("/a", "/b")), Policy(read=("/b", "/a", "/a/c"))),
        (Policy(write=("/a",)), Policy(write=("/a",), read=("/a/b",))),
        (Policy(hosts=("*:1", "x:1")), Policy(hosts=("*:1",))),
        (Policy(workspace=Policy(memory_mb=1)), Policy()),
    ],
)
def test_policies_that_mean_the_same_do_not_differ(one, other):
    assert one != other
    assert compare_policies(one, other) == compare_policies(other, one) == []


def test_changing_files_is_more_than_reading_them():
    assert find_excess(Policy(read=("/a",)), Policy(write=("/a",))) == []
    assert find_excess(Policy(write=("/a",)), Policy(read=("/a",))) == ["files to change: /a (allowed: none)"]


def test_the_words_of_a_change():
    old, new = Policy(read=("/data/small",), hosts=("x:1",)), Policy(read=("/data",), cpu_s=5)
    assert compare_policies(old, new) == [
        Change("files to read", "of it /data/small", "/data", "wider"),
        Change("hosts to reach", "x:1", "none", "narrower"),
        Change("CPU time", "no limit", "5 s", "narrower"),
    ]


def test_a_first_workspace_is_told_with_what_it_may_do():
    asked = Policy(workspaces=1, workspace=Policy(hosts=("x:1",)))
    assert find_excess(asked, DEFAULT) == [
        "workspaces: 1 (allowed: 0)",
        "workspace: network: may reach x:1, nothing else (allowed: none)",
    ]


@pytest.mark.parametrize("name", list(OTHER))
def test_a_field_within_a_workspace_is_compared(name):
    old = Policy(workspaces=1, workspace=BASE)
    new = Policy(workspaces=1, workspace=replace(BASE, **{name: OTHER[name]}))
    assert all(change.topic.startswith("workspace: ") for change in compare_policies(old, new))
    assert compare_policies(old, new)
