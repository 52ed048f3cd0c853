"""What a value may be: checks, samples, flattens, batches, and has a JSON form. Seeds give Gymnasium's samples.

::

    space.py                      the root class
    box.py discrete.py ...        one file per space
    struct.py records/            typed records as a space: dataclasses, pydantic models, msgspec structs
    batch.py flatten.py           functions over spaces, open to spaces of your own through `.register`
    shared_memory.py              batches in memory that processes share
    json_form.py                  a space as JSON text, and back from strangers' text
    json_value.py json_schema.py  a value as JSON data, and the JSON Schema of that
    conform.py                    an action made ready for its environment, or refused with a reason
"""

from paddock.aliases import add_aliases
from paddock.spaces.batch import (
    batch_differing_spaces,
    batch_space,
    concatenate,
    create_empty_array,
    is_space_dtype_shape_equiv,
    iterate,
)
from paddock.spaces.box import Box
from paddock.spaces.conform import Nonconforming, conform
from paddock.spaces.dict import Dict
from paddock.spaces.discrete import Discrete
from paddock.spaces.flatten import flatdim, flatten, flatten_space, unflatten
from paddock.spaces.graph import Graph, GraphInstance
from paddock.spaces.multi_binary import MultiBinary
from paddock.spaces.multi_discrete import MultiDiscrete
from paddock.spaces.oneof import OneOf
from paddock.spaces.sequence import Sequence
from paddock.spaces.space import Space
from paddock.spaces.struct import Struct
from paddock.spaces.text import Text
from paddock.spaces.tuple import Tuple

__all__ = [
    "Box",
    "Dict",
    "Discrete",
    "Graph",
    "GraphInstance",
    "MultiBinary",
    "MultiDiscrete",
    "Nonconforming",
    "OneOf",
    "Sequence",
    "Space",
    "Struct",
    "Text",
    "Tuple",
    "batch_differing_spaces",
    "batch_space",
    "concatenate",
    "conform",
    "create_empty_array",
    "flatdim",
    "flatten",
    "flatten_space",
    "from_json",
    "is_space_dtype_shape_equiv",
    "iterate",
    "unflatten",
]

from_json = Space.from_json

# The module of Bound in 0.1.0: pickles of a Box whose bounds differ name it.
ALIASES = {"box_bounds": {"paddock.spaces.box": "Bound"}}
add_aliases(__name__, ALIASES)
