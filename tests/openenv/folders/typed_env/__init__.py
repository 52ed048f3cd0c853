"""typed_env, as OpenEnv"s environments are laid out."""

from .client import OrderEnv
from .models import OrderAction, OrderObservation

__all__ = ["OrderAction", "OrderEnv", "OrderObservation"]
