"""A policy in words: every field is told, and a name can't pass itself off as other words."""

from dataclasses import fields, replace

import pytest
from hypothesis import given

from paddock.sandbox.policy import DEFAULT, TIERS, Policy, explain, quote
from tests.sandbox.policies import OTHER, policies

FIELDS = [field.name for field in fields(Policy)]
WORKED = replace(DEFAULT, hosts=("a:1",), workspaces=1, workspace=DEFAULT)


def texts(policy):
    return {line.topic: line.text for line in explain(policy)}


def test_every_field_belongs_to_a_line():
    assert {name for line in explain(DEFAULT) for name in line.fields} == set(FIELDS)


def test_every_field_has_a_value_to_try():
    assert list(OTHER) == FIELDS


@pytest.mark.parametrize("name", FIELDS)
def test_another_value_is_told_in_the_line_of_its_field(name):
    changed = explain(replace(WORKED, **{name: OTHER[name]}))
    before = {(line.topic, line.text) for line in explain(WORKED)}
    new = [line for line in changed if (line.topic, line.text) not in before]
    assert new
    assert all(name in line.fields or line.topic.startswith("workspace: ") for line in new)


@given(policies(), policies())
def test_policies_that_allow_different_things_are_told_in_different_words(one, other):
    from paddock.sandbox.policy import compare_policies

    if compare_policies(one, other):
        assert texts(one) != texts(other)


def test_the_default_in_words():
    told = texts(DEFAULT)
    assert told["files"] == "none of yours; 64 MB of scratch, which is gone at the end"
    assert told["network"] == "none"
    assert told["programs"] == "may run no other program; one process with at most 64 threads"
    assert told["memory"] == "at most 2,048 MB"
    assert (
        told["time"]
        == "60 s to start; 30 s per call, with 30 s of CPU time, then it is ended; CPU time in total: no limit"
    )
    assert {line.weight for line in explain(DEFAULT)} == {"nothing", "limit"}


def test_permissions_in_words():
    policy = Policy(
        read=("/data",), hosts=("api.example.com:443", "*:80"), programs=("/bin/ls",), processes=4, cpu_s=1.5
    )
    told = texts(policy)
    assert told["files"] == "may read /data; may write nothing but 64 MB of scratch, which is gone at the end"
    assert told["network"] == "may reach every host on port 80, api.example.com:443, nothing else"
    assert told["programs"] == "may run /bin/ls; 4 processes with at most 64 threads"
    assert told["time"].endswith("CPU time in total: at most 1.5 s")
    weights = {line.topic: line.weight for line in explain(policy)}
    assert weights["files"] == weights["network"] == weights["programs"] == "grant"


def test_what_weakens_the_wall_is_marked():
    marked = [line.topic for line in explain(Policy(tier="auto", devices=("/dev/kvm",))) if line.weight == "weaker"]
    assert marked == ["wall", "devices"]


def test_every_tier_is_described():
    assert all(texts(Policy(tier=tier))["wall"].startswith(f"{tier}: ") for tier in TIERS)


def test_a_workspace_of_a_workspace_is_told():
    inner = Policy(workspaces=1, workspace=Policy(memory_mb=77))
    told = texts(Policy(workspaces=2, workspace=inner))
    assert told["workspace: workspace: memory"] == "at most 77 MB"


@pytest.mark.parametrize(
    "text", ["/data; may write nothing", "/a, /b", "/a\n", "/\x1b[31m", "/a b", "/\u202e", "/é", ""]
)
def test_a_name_that_could_be_other_words_is_quoted(text):
    assert quote(text) == ascii(text)
    assert quote(text).isprintable()


@pytest.mark.parametrize("text", ["/data/x-1.0+b_2", "api.example.com:443", "[::1]:80", "*:443"])
def test_a_usual_name_is_not_quoted(text):
    assert quote(text) == text
