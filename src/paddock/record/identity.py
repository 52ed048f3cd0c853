"""Which environment a record is about: a digest over its spec, its wrappers and all their arguments included.

The same at every distance, and the same for one environment and for n lanes of it: those are the same environment.
"""

from __future__ import annotations

import hashlib
from typing import Any

from paddock.core.spec import EnvSpec, entry_point_text
from paddock.core.spec_values import to_plain
from paddock.errors import InvalidSpec, NoCanonicalForm
from paddock.record.canonical import canonical_bytes

_FORMAT = b"paddock environment 1\n"
_OF_LANES = ("num_envs", "vectorization_mode")
_FIELDS = ("id", "max_episode_steps", "order_enforce", "disable_env_checker")


def environment_digest(spec: EnvSpec) -> str:
    """sha256, as 64 hexadecimal digits, over what makes the environment behave as it does.

    Take the spec of an environment that was made: its wrappers have recorded every argument, defaults included.
    A wrapper with a function among its arguments, or with none recorded, is a NoCanonicalForm that names it.

    >>> import paddock
    >>> here, lanes = paddock.make("CartPole-v1"), paddock.make_vec("CartPole-v1", num_envs=2)
    >>> environment_digest(here.spec) == environment_digest(lanes.spec)
    True
    """
    return hashlib.sha256(_FORMAT + canonical_bytes(_described(spec))).hexdigest()


def _described(spec: EnvSpec) -> dict[str, Any]:
    """What the digest is over; what only informs (a threshold, the vector entry point) is left out."""
    kwargs = {name: value for name, value in spec.kwargs.items() if name not in _OF_LANES}
    return {
        **{name: getattr(spec, name) for name in _FIELDS},
        "entry_point": None if spec.entry_point is None else entry_point_text(spec.entry_point),
        "kwargs": _plain(kwargs, f"{spec.id}.kwargs"),
        "wrappers": [[w.entry_point, _plain(w.kwargs, f"{spec.id}.{w.name}.kwargs")] for w in spec.additional_wrappers],
    }


def _plain(arguments: dict[str, Any] | None, path: str) -> Any:
    if arguments is None:
        raise NoCanonicalForm(f"{path} were not recorded, so nothing says which environment this is.")
    try:
        return to_plain(arguments, path)
    except InvalidSpec as error:
        raise NoCanonicalForm(f"{error} Without it nothing says which environment this is.") from error
