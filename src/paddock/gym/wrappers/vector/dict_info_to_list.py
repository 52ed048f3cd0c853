"""``gymnasium.wrappers.vector.dict_info_to_list``."""

from paddock.wrappers.vector import DictInfoToList

__all__ = ["DictInfoToList"]
