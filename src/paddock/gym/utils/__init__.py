"""``gymnasium.utils``: legacy helpers, at this edge alone."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from paddock.aliases import add_aliases
from paddock.gym.utils import passive_env_checker

__all__ = ["EzPickle", "RecordConstructorArgs", "colorize"]


class EzPickle:
    """Pickles an object as its constructor's arguments; what happened to it since then is not kept.

    For objects around C code. Call ``EzPickle.__init__`` with the arguments that make the same object again.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        self._ezpickle_args = args
        self._ezpickle_kwargs = kwargs

    def __getstate__(self) -> dict[str, Any]:
        return {"_ezpickle_args": self._ezpickle_args, "_ezpickle_kwargs": self._ezpickle_kwargs}

    def __setstate__(self, d: dict[str, Any]) -> None:
        made = type(self)(*d["_ezpickle_args"], **d["_ezpickle_kwargs"])
        vars(self).update(vars(made))


class RecordConstructorArgs:
    """Keeps keyword arguments in ``_saved_kwargs``, which ``Wrapper.spec`` reads.

    The first call wins: a subclass calls before its base.
    """

    def __init__(self, *, _disable_deepcopy: bool = False, **kwargs: Any) -> None:
        # A wrapper's class has the attribute, as None, before anything is recorded.
        if getattr(self, "_saved_kwargs", None) is None:
            self._saved_kwargs: dict[str, Any] | None = kwargs if _disable_deepcopy else deepcopy(kwargs)


ALIASES = {
    "colorize": {"paddock.gym.logger": "color2num colorize"},
    "env_match": {"paddock.gym.utils.env_checker": "check_environments_match"},
    "ezpickle": {"paddock.gym.utils": "EzPickle"},
    "record_constructor": {"paddock.gym.utils": "RecordConstructorArgs"},
    "seeding": {"paddock.seeding": "RNG RandomNumberGenerator np_random"},
}
add_aliases(__name__, ALIASES, at_once=("colorize", "ezpickle", "record_constructor", "seeding"))

# After its module, which it hides, as in Gymnasium.
from paddock.gym.logger import colorize  # noqa: E402
