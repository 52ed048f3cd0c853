"""Graph: samples that advance, membership of batches, and the parts of an instance."""

import numpy as np
import pytest

import paddock.spaces as ours
from paddock.errors import InvalidSpace
from paddock.spaces import Box, Dict, Discrete, Graph, GraphInstance, Text, Tuple
from tests.spaces.twins import CATALOGUE, same, twin, twin_value

NAMES = [name for name in CATALOGUE if name.startswith("graph")]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_first_sample_after_seeding_equals_gymnasiums(name):
    space = CATALOGUE[name]()
    peer = twin(space)
    for seed in range(200):
        assert same(space.seed(seed), peer.seed(seed))
        assert same(space.sample(num_nodes=1 + seed % 5), peer.sample(num_nodes=1 + seed % 5))


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_thousands_of_first_samples_equal_gymnasiums(name):
    space = CATALOGUE[name]()
    peer = twin(space)
    for seed in range(1_000 if name == "graph-text" else 10_000):  # texts are drawn slowly
        space.seed(seed), peer.seed(seed)
        assert same(space.sample(), peer.sample()), seed


@pytest.mark.parametrize("node_space", [Box(0, 1, (3,)), Discrete(1000), Dict(a=Box(0, 1, (3,))), Tuple([Text(9)])])
def test_consecutive_samples_share_no_draws(node_space):
    space = Graph(node_space, Box(0, 1, (2,)), seed=1)
    first, second = (space.sample(num_nodes=20, num_edges=30) for _ in range(2))
    for a, b in ((first.nodes, second.nodes), (first.edges, second.edges)):
        a, b = ({str(value) for value in np.ravel(batch_values(batch))} for batch in (a, b))
        assert len(a) > 15
        assert len(a & b) <= (2 if isinstance(node_space, Discrete) else 0)


def batch_values(batch):
    if isinstance(batch, dict):
        return np.concatenate([np.ravel(part) for part in batch.values()])
    if isinstance(batch, tuple):
        return np.concatenate([np.ravel(np.array(part, dtype=object)) for part in batch])
    return batch


def test_the_stream_of_the_nodes_is_the_one_that_sampling_nodes_would_take():
    space, nodes = Graph(Box(0, 1, (3,)), None, seed=1), Box(0, 1, (3,))
    nodes.np_random.bit_generator.state = space.node_space.np_random.bit_generator.state
    drawn = [space.sample(num_nodes=2).nodes for _ in range(3)]
    assert np.concatenate(drawn).tobytes() == np.array([nodes.sample() for _ in range(6)]).tobytes()


def test_seeds_of_every_form_equal_gymnasiums():
    for space, seeds in [
        (CATALOGUE["graph"](), [1, (1, 2, 3), [4, 5, 6]]),
        (CATALOGUE["graph-no-edges"](), [1, (1, 2), [3, 4]]),
    ]:
        peer = twin(space)
        for seed in seeds:
            assert same(space.seed(seed), peer.seed(seed))
            assert same(space.sample(), peer.sample())
        assert len(space.seed()) == len(peer.seed())
        for seed in ((1,), (1, 2, 3, 4), 1.5, "3"):
            with pytest.raises((ValueError, TypeError)):
                space.seed(seed)


def test_masked_samples_equal_gymnasiums():
    space = Graph(Discrete(3), Discrete(4))
    rng = np.random.default_rng(0)
    for seed in range(50):
        peer = twin(space)
        space.seed(seed), peer.seed(seed)
        nodes = tuple(rng.integers(0, 2, 3, dtype=np.int8) for _ in range(5))
        edge = rng.integers(0, 2, 4, dtype=np.int8)
        for arguments in (
            {"mask": (nodes, edge), "num_nodes": 5},
            {"mask": (nodes, None), "num_nodes": 5},
            {"mask": (None, (edge, edge)), "num_nodes": 5, "num_edges": 2},
            {"probability": (None, rng.dirichlet(np.ones(4))), "num_nodes": 3},
        ):
            space.seed(seed), peer.seed(seed)
            assert same(space.sample(**arguments), peer.sample(**arguments))


def test_bad_arguments_are_refused():
    space = Graph(Discrete(3), None)
    with pytest.raises(AssertionError):
        space.sample(num_nodes=0)
    with pytest.raises(AssertionError):
        Graph(Discrete(3), Discrete(2)).sample(num_edges=-1)
    with pytest.raises(ValueError, match="Only one of"):
        space.sample(mask=(None, None), probability=(None, None))
    with pytest.warns(UserWarning, match="edge space is None"):
        space.sample(num_edges=3)
    for arguments in ((3, None), (Discrete(2), 3)):
        with pytest.raises(InvalidSpace):
            Graph(*arguments)


def test_membership():
    space = Graph(Box(0, 1, (3,)), Discrete(5))
    nodes, edges, links = np.ones((2, 3), np.float32), np.array([4, 0]), np.array([[0, 1], [1, 1]])
    assert GraphInstance(nodes, edges, links) in space
    assert GraphInstance(list(nodes), list(edges), links) in space
    assert GraphInstance(nodes, None, None) in space
    for wrong in (
        GraphInstance(nodes, edges, None),
        GraphInstance(nodes, None, links),
        GraphInstance(nodes, edges, links + 1),
        GraphInstance(nodes, edges, links - 1),
        GraphInstance(nodes, edges, links[:1]),
        GraphInstance(nodes, edges, links.astype(float)),
        GraphInstance(nodes, edges + 1, links),
        GraphInstance(nodes + 1, edges, links),
        GraphInstance(nodes[:, :2], edges, links),
        GraphInstance(nodes.astype(np.float64), edges, links),
        GraphInstance(None, None, None),
        (nodes, edges, links),
    ):
        assert wrong not in space
        assert twin(space).contains(twin_value(wrong)) is False
    assert GraphInstance(nodes, edges, links) not in Graph(Box(0, 1, (3,)), None)


@pytest.mark.parametrize("name", NAMES)
def test_jsonable_round_trip_equals_gymnasiums(name):
    space = CATALOGUE[name]()
    space.seed(2)
    samples = [space.sample(num_nodes=3) for _ in range(3)]
    data = space.to_jsonable(samples)
    assert data == twin(space).to_jsonable([twin_value(sample) for sample in samples])
    if name != "graph-text":  # Gymnasium's form keeps the first of several texts; `value_to_json` keeps all
        assert same(space.from_jsonable(data), samples)


@pytest.mark.parametrize("name", NAMES)
def test_attributes_and_repr_equal_gymnasiums(name):
    space = CATALOGUE[name]()
    peer = twin(space)
    assert repr(space) == repr(peer)
    assert repr(space.batch_node_space) == repr(peer.batch_node_space)
    assert repr(space.batch_edge_space) == repr(peer.batch_edge_space)
    assert space.is_np_flattenable is False


def test_deeply_nested_graphs_are_cheap_to_make_and_compare():
    space = other = Discrete(2)
    for _ in range(30):
        space, other = Graph(space, None), Graph(other, None)
    assert space == other
    assert hash(space) == hash(other)
    assert ours.Space.from_json(space.to_json()) == space
