"""Whether Torch has a device here, asked before an environment is made, which would have to be closed again."""

from __future__ import annotations

from paddock.adapters.needed import need
from paddock.errors import PlanError
from paddock.wrappers.array_libraries import Device


def check_torch_has(device: Device | None) -> None:
    """Raise PlanError if tensors can't be put there."""
    need("torch")
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise PlanError(f"device={device!r}: {error}. Expected one that Torch has here, such as 'cpu'.") from error
