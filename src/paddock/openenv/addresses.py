"""Addresses in OpenEnv's forms: a server's for its websocket, and a Space's on the hub."""

from __future__ import annotations

import re


def convert_to_ws_url(url: str) -> str:
    """Return the ws:// or wss:// form of an address, without a slash at its end.

    >>> convert_to_ws_url("https://host:8000/")
    'wss://host:8000'
    """
    url = url.rstrip("/")
    if url.startswith(("http://", "https://")):
        return f"ws{url.removeprefix('http')}"
    return url if url.startswith(("ws://", "wss://")) else f"ws://{url}"


def hf_space_subdomain(repo_id: str) -> str:
    """Return the part of a Space's address that stands for it.

    >>> hf_space_subdomain("openenv/echo_env")
    'openenv-echo-env'
    """
    return re.sub(r"[^a-z0-9]", "-", repo_id.lower())
