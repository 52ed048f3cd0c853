"""``gymnasium.wrappers.array_conversion``. No array library is needed to import this."""

from types import ModuleType
from typing import Any

from paddock.wrappers.array_conversion import ArrayConversion, array_conversion
from paddock.wrappers.array_libraries import Device, load_library, module_namespace

__all__ = ["Array", "ArrayConversion", "Device", "array_conversion", "module_name_to_namespace", "module_namespace"]

Array = Any


def module_name_to_namespace(name: str) -> ModuleType:
    return module_namespace(load_library(name))
