"""AsEnv: environments written for OpenEnv as paddock's. It lives in ``paddock.sources``, which ``make`` knows."""

from __future__ import annotations

from paddock.sources.openenv import AsEnv
from paddock.sources.openenv_classes import is_openenv, record_classes, spec_of

__all__ = ["AsEnv", "is_openenv", "record_classes", "spec_of"]
