"""Gymnasium's name for `paddock.seeding`, where NumPy integers are seeds as well."""

from paddock.seeding import RNG, RandomNumberGenerator, np_random

__all__ = ["RNG", "RandomNumberGenerator", "np_random"]
