"""Merkle trees against the definitions of RFC 6962, as they stand there, and roots of Certificate Transparency."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.record.merkle import (
    MerkleTree,
    inner_hash,
    leaf_hash,
    verify_consistency,
    verify_inclusion,
)

ENTRIES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
MANY = [leaf_hash(bytes([n])) for n in range(70)]


def split(n):
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def rfc_root(leaves):
    if len(leaves) <= 1:
        return leaves[0] if leaves else hashlib.sha256().digest()
    k = split(len(leaves))
    return inner_hash(rfc_root(leaves[:k]), rfc_root(leaves[k:]))


def rfc_path(m, leaves):
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if m < k:
        return [*rfc_path(m, leaves[:k]), rfc_root(leaves[k:])]
    return [*rfc_path(m - k, leaves[k:]), rfc_root(leaves[:k])]


def rfc_subproof(m, leaves, complete=True):
    if m == len(leaves):
        return [] if complete else [rfc_root(leaves)]
    k = split(len(leaves))
    if m <= k:
        return [*rfc_subproof(m, leaves[:k], complete), rfc_root(leaves[k:])]
    return [*rfc_subproof(m - k, leaves[k:], False), rfc_root(leaves[:k])]


@pytest.mark.parametrize("n", range(1, 9))
def test_roots_are_those_of_certificate_transparency(n):
    leaves = [leaf_hash(bytes.fromhex(entry)) for entry in ENTRIES[:n]]
    assert MerkleTree(leaves).root.hex() == ROOTS[n - 1]


@pytest.mark.parametrize("n", range(70))
def test_roots_and_proofs_are_those_of_the_definition_and_verify(n):
    tree, leaves = MerkleTree(MANY[:n]), MANY[:n]
    assert tree.root == rfc_root(leaves)
    for at in range(n):
        assert tree.inclusion_proof(at) == rfc_path(at, leaves)
        assert verify_inclusion(leaves[at], at, n, tree.inclusion_proof(at), tree.root)
    for size in range(1, n + 1):
        proof = tree.consistency_proof(size)
        assert proof == rfc_subproof(size, leaves)
        assert verify_consistency(size, rfc_root(leaves[:size]), n, tree.root, proof)
    assert verify_consistency(0, rfc_root([]), n, tree.root, tree.consistency_proof(0))


@given(n=st.integers(1, 40), at=st.integers(0, 39), other=st.integers(0, 39), flip=st.integers(0, 39))
def test_a_proof_shows_nothing_else(n, at, other, flip):
    at, other = at % n, other % n
    tree, leaves = MerkleTree(MANY[:n]), MANY[:n]
    proof = tree.inclusion_proof(at)
    if other != at:
        assert not verify_inclusion(leaves[other], at, n, proof, tree.root)
        assert not verify_inclusion(leaves[at], other, n, proof, tree.root)
    if proof:
        wrong = [bytes(32) if one == flip % len(proof) else hash_ for one, hash_ in enumerate(proof)]
        assert not verify_inclusion(leaves[at], at, n, wrong, tree.root)
        assert not verify_inclusion(leaves[at], at, n, proof[:-1], tree.root)
    assert not verify_inclusion(leaves[at], at, n, [*proof, bytes(32)], tree.root)


@given(n=st.integers(2, 40), size=st.integers(1, 39), gone=st.integers(0, 39))
def test_a_list_that_lost_or_changed_an_entry_is_not_consistent(n, size, gone):
    size = 1 + size % (n - 1)
    gone %= size
    before = MerkleTree(MANY[:size])
    shorter = MerkleTree([*MANY[:gone], *MANY[gone + 1 : n + 1]])
    changed = MerkleTree([*MANY[:gone], MANY[-1], *MANY[gone + 1 : n]])
    for later in (shorter, changed):
        proof = later.consistency_proof(min(size, len(later)))
        assert not verify_consistency(size, before.root, len(later), later.root, proof)


@given(st.integers(-3, 40), st.integers(-3, 40), st.lists(st.binary(max_size=33), max_size=8), st.binary(max_size=33))
def test_any_bytes_as_a_proof_are_false(index, size, proof, root):
    assert not verify_inclusion(root, index, size, proof, bytes(32))
    if index != size:
        assert not verify_consistency(index, root, size, bytes(32), proof)


@pytest.mark.parametrize("call", [lambda tree: tree.inclusion_proof(3), lambda tree: tree.consistency_proof(4)])
def test_a_proof_about_what_is_not_there_is_refused(call):
    with pytest.raises(IndexError, match="expected 0 to"):
        call(MerkleTree(MANY[:3]))
