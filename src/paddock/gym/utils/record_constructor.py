"""RecordConstructorArgs: a wrapper's arguments for its spec. The first call wins: a subclass calls before its base."""

from __future__ import annotations

from copy import deepcopy
from typing import Any


class RecordConstructorArgs:
    """Keeps keyword arguments in ``_saved_kwargs``, which ``Wrapper.spec`` reads."""

    def __init__(self, *, _disable_deepcopy: bool = False, **kwargs: Any) -> None:
        # A wrapper's class has the attribute, as None, before anything is recorded.
        if getattr(self, "_saved_kwargs", None) is None:
            self._saved_kwargs: dict[str, Any] | None = kwargs if _disable_deepcopy else deepcopy(kwargs)
