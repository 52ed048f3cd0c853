"""Gymnasium's `utils`: legacy helpers, at this edge alone."""

from paddock.gym.utils import passive_env_checker, seeding
from paddock.gym.utils.colorize import colorize
from paddock.gym.utils.ezpickle import EzPickle
from paddock.gym.utils.record_constructor import RecordConstructorArgs

__all__ = ["EzPickle", "RecordConstructorArgs", "colorize"]
