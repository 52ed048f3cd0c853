"""echo_env: tools only, so it has no models of its own."""

from .client import EchoEnv

__all__ = ["EchoEnv"]
