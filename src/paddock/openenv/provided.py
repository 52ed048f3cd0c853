"""Provided: the server that a provider starts for a client, and stops with it; or one that runs already."""

from __future__ import annotations

from typing import Any

from paddock.errors import PlanError


class Provided:
    """``provider`` has ``start`` (the URL), ``stop`` and perhaps ``wait_for_ready``, as OpenEnv's have."""

    def __init__(self, provider: Any, base_url: str | None) -> None:
        self._provider, self.base_url = provider, base_url
        self._started = False

    def start(self) -> str:
        """The server's URL; it is started at the first call."""
        if self.base_url is None:
            if not hasattr(self._provider, "start"):
                raise PlanError(
                    f"{type(self._provider).__name__} has no start(). Give base_url=, or use from_docker_image."
                )
            base_url = self._provider.start()
            self._started = True
            if not isinstance(base_url, str):
                raise PlanError(f"{type(self._provider).__name__}.start() returned {base_url!r:.80}, expected a URL.")
            if hasattr(self._provider, "wait_for_ready"):
                self._provider.wait_for_ready()
            self.base_url = base_url
        return self.base_url

    def stop(self) -> None:
        """Stop what was started. Safe to call twice."""
        if self._started:
            self._started = False
            self._provider.stop()
            self.base_url = None
