"""The environments of ``bad_envs``, over Gymnasium's classes."""

import types
from pathlib import Path

from tests.testing import bad_envs


def gymnasiums_bad_envs():
    text = Path(bad_envs.__file__).read_text()
    text = text.replace("paddock.core.spec", "gymnasium.envs.registration").replace(
        "paddock.spaces", "gymnasium.spaces"
    )
    module = types.ModuleType("gymnasiums_bad_envs")
    exec(text.replace("paddock.core.env", "gymnasium").replace("paddock.core.wrapper", "gymnasium"), vars(module))
    return module
