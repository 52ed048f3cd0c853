"""``gymnasium.vector.utils``."""

from paddock.gym.vector.utils import space_utils
from paddock.spaces.batch import batch_differing_spaces, batch_space, concatenate, create_empty_array, iterate

__all__ = ["batch_differing_spaces", "batch_space", "concatenate", "create_empty_array", "iterate", "space_utils"]
