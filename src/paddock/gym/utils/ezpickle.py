"""EzPickle: an object is pickled as its constructor's arguments. What happened to it since then is not kept."""

from __future__ import annotations

from typing import Any


class EzPickle:
    """For objects around C code. Call ``EzPickle.__init__`` with the arguments that make the same object again."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self._ezpickle_args = args
        self._ezpickle_kwargs = kwargs

    def __getstate__(self) -> dict[str, Any]:
        return {"_ezpickle_args": self._ezpickle_args, "_ezpickle_kwargs": self._ezpickle_kwargs}

    def __setstate__(self, d: dict[str, Any]) -> None:
        made = type(self)(*d["_ezpickle_args"], **d["_ezpickle_kwargs"])
        vars(self).update(vars(made))
