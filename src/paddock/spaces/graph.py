"""Graphs: nodes and edges with features. Nodes and edges are batches of their spaces, not lists of members."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from collections.abc import Sequence as AbstractSequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paddock.errors import InvalidSpace
from paddock.spaces.dict import Dict
from paddock.spaces.sequence import count_members
from paddock.spaces.space import Space, check_not_both, is_integer
from paddock.spaces.tuple import Tuple


class GraphInstance(NamedTuple):
    """One graph of n nodes and m edges.

    nodes: a batch of n node features. edges: a batch of m edge features, or None. edge_links: int[m, 2], the two nodes
    that each edge joins, or None.
    """

    nodes: Any
    edges: Any | None
    edge_links: NDArray[Any] | None


class Graph(Space[GraphInstance]):
    """Graphs whose nodes belong to ``node_space`` and whose edges, if any, belong to ``edge_space``.

    >>> from paddock.spaces import Box, Discrete
    >>> graph = Graph(Box(-1, 1, (3,)), Discrete(5), seed=1)
    >>> graph.sample(num_nodes=4, num_edges=2) in graph
    True
    """

    node_space: Space[Any]
    edge_space: Space[Any] | None
    is_np_flattenable = False

    def __init__(
        self,
        node_space: Space[Any],
        edge_space: Space[Any] | None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        if not isinstance(node_space, Space):
            raise InvalidSpace(f"Expects the node space to be a Space, actual type: {type(node_space)}")
        if edge_space is not None and not isinstance(edge_space, Space):
            raise InvalidSpace(f"Expects the edge space to be a Space or None, actual type: {type(edge_space)}")
        self.node_space, self.edge_space = node_space, edge_space
        self._batched: dict[str, Space[Any]] = {}
        super().__init__(None, None, seed)

    @property
    def batch_node_space(self) -> Space[Any]:
        """``node_space`` with a leading axis."""
        return self._batch_of("node", self.node_space)

    @property
    def batch_edge_space(self) -> Space[Any] | None:
        """``edge_space`` with a leading axis."""
        return None if self.edge_space is None else self._batch_of("edge", self.edge_space)

    def _batch_of(self, which: str, space: Space[Any]) -> Space[Any]:
        # Made on first use: nested graphs would double in size with every level.
        if which not in self._batched:
            from paddock.spaces.batch import batch_space

            self._batched[which] = batch_space(space, 1)
        return self._batched[which]

    def seed(self, seed: int | tuple[int, int] | tuple[int, int, int] | None = None) -> tuple[Any, ...]:
        """Seed this space, nodes and edges: from entropy (None), from one integer, or with one seed each."""
        parts = [self.node_space] if self.edge_space is None else [self.node_space, self.edge_space]
        if not (seed is None or is_integer(seed) or isinstance(seed, (list, tuple))):
            raise InvalidSpace(f"Expects `None`, int or tuple of ints, actual type: {type(seed)}")
        if isinstance(seed, (list, tuple)) and len(seed) != len(parts) + 1:
            wanted = "two values for Graph and" if len(parts) == 1 else "three values for Graph, node and edge"
            raise InvalidSpace(f"Expects a tuple of {wanted} node space, actual length: {len(seed)}")
        return self._seed_with_parts(seed, parts)

    def sample(
        self,
        mask: tuple[Any, Any] | None = None,
        probability: tuple[Any, Any] | None = None,
        num_nodes: int = 10,
        num_edges: int | None = None,
    ) -> GraphInstance:
        """A random graph; without ``num_edges``, of fewer than ``num_nodes * (num_nodes - 1)`` edges.

        mask, probability: (what the batched node space takes, what the edge space takes). With ``num_edges`` the second
        is for the batched edge space, without it for one edge.
        """
        if num_nodes <= 0:
            raise InvalidSpace(f"The number of nodes is expected to be greater than 0, actual value: {num_nodes}")
        check_not_both(mask, probability)
        name, narrowed = ("probability", probability) if mask is None else ("mask", mask)
        for_nodes, for_edges = (None, None) if narrowed is None else narrowed
        if num_edges is None:
            num_edges = int(self.np_random.integers(num_nodes * (num_nodes - 1))) if num_nodes > 1 else 0
            if for_edges is not None:
                for_edges = (for_edges,) * num_edges
        elif num_edges < 0:
            raise InvalidSpace(f"Expects the number of edges to be greater than 0, actual value: {num_edges}")
        elif self.edge_space is None:
            warnings.warn(f"The number of edges is set ({num_edges}) but the edge space is None.", stacklevel=2)
        nodes = _sample_batch(self.node_space, num_nodes, {} if narrowed is None else {name: for_nodes})
        if self.edge_space is None or num_edges == 0:
            return GraphInstance(nodes, None, None)
        edges = _sample_batch(self.edge_space, num_edges, {} if narrowed is None else {name: for_edges})
        links = self.np_random.integers(low=0, high=num_nodes, size=(num_edges, 2), dtype=np.int32)
        return GraphInstance(nodes, edges, links)

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a GraphInstance of members, with links between its nodes. Never raises."""
        try:
            if not isinstance(x, GraphInstance):
                return False
            nodes, edges, links = tuple.__iter__(x)
        except Exception:
            return False
        if nodes is None:
            return False
        count = count_members(self.node_space, nodes, lambda: self.batch_node_space)
        if count is None:
            return False
        if edges is None or links is None:
            return edges is None and links is None
        edge_space = self.edge_space
        if edge_space is None:
            return False
        edge_count = count_members(edge_space, edges, lambda: self._batch_of("edge", edge_space))
        return edge_count is not None and _are_links(links, edge_count, count)

    def __repr__(self) -> str:
        return f"Graph({self.node_space}, {self.edge_space})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.node_space == other.node_space and self.edge_space == other.edge_space

    def __hash__(self) -> int:
        return hash(("Graph", self.node_space, self.edge_space))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_batched": {}}

    def to_jsonable(self, sample_n: Iterable[GraphInstance]) -> list[Any]:
        found = []
        for sample in sample_n:
            data = {"nodes": self.batch_node_space.to_jsonable([sample.nodes])}
            if sample.edges is not None and sample.edge_links is not None and self.batch_edge_space is not None:
                data["edges"] = self.batch_edge_space.to_jsonable([sample.edges])
                data["edge_links"] = sample.edge_links.tolist()
            found.append(data)
        return found

    def from_jsonable(self, sample_n: AbstractSequence[dict[str, Any]]) -> list[GraphInstance]:
        found = []
        for data in sample_n:
            nodes = self.batch_node_space.from_jsonable(data["nodes"])[0]
            edges = links = None
            if "edges" in data:
                if self.batch_edge_space is None:
                    raise InvalidSpace(f"The data has edges but the edge space of {self} is None.")
                edges = self.batch_edge_space.from_jsonable(data["edges"])[0]
                links = np.asarray(data["edge_links"], dtype=np.int32)
            found.append(GraphInstance(nodes, edges, links))
        return found


def _are_links(links: Any, edge_count: int, node_count: int) -> bool:
    try:
        if not isinstance(links, np.ndarray):
            return False
        links = np.asarray(links)  # a subclass may compare in its own way
        return (
            links.dtype.kind in "iu"
            and links.shape == (edge_count, 2)
            and b"\0" not in ((links >= 0) & (links < node_count)).tobytes()
        )
    except Exception:
        return False


def _sample_batch(space: Space[Any], count: int, narrowed: dict[str, Any]) -> Any:
    """Draw a batch of ``count`` members. The stream of ``space`` advances by all draws (in Gymnasium, by one)."""
    from paddock.spaces.batch import batch_space

    batched = batch_space(space, count)
    drawn = batched.sample(**narrowed)
    _continue_after(space, batched, count)
    return drawn


def _continue_after(space: Space[Any], batched: Space[Any], count: int) -> None:
    """Let ``space`` go on where its batched copy, which started with a copy of its stream, has stopped."""
    if isinstance(space, Tuple) and isinstance(batched, Tuple):
        for part, batched_part in zip(space.spaces, batched.spaces, strict=True):
            _continue_after(part, batched_part, count)
    elif isinstance(space, Dict) and isinstance(batched, Dict):
        for key, part in space.spaces.items():
            _continue_after(part, batched.spaces[key], count)
    elif isinstance(batched, Tuple):
        space.np_random.integers(0, 10**8, count)  # the draw that seeded the copies
    else:
        space.np_random.bit_generator.state = batched.np_random.bit_generator.state
