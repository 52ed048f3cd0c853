"""The client of OpenEnv before 0.2, whose environments are still around. Unlike that one, it keeps one session."""

from __future__ import annotations

from typing import Any

from paddock.openenv.client import ActT, EnvClient, ObsT


class HTTPEnvClient(EnvClient[ActT, ObsT, Any]):
    """EnvClient with the two type parameters and the arguments that this class had."""

    def __init__(
        self,
        base_url: str | None = None,
        request_timeout_s: float = 15.0,
        default_headers: dict[str, str] | None = None,
        provider: Any = None,
    ) -> None:
        super().__init__(base_url, message_timeout_s=request_timeout_s, headers=default_headers, provider=provider)
