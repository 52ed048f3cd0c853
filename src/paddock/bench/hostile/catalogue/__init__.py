"""The catalogue: every attack as data. A new one is a row here and a class below ``attacks``.

Without a wall each must hit its canary (``control``), else it would prove nothing; the few that can't say why.
"""

from __future__ import annotations

from paddock.bench.hostile.attack import Attack
from paddock.bench.hostile.catalogue.files import FILES
from paddock.bench.hostile.catalogue.imports import IMPORTS
from paddock.bench.hostile.catalogue.kernel import KERNEL
from paddock.bench.hostile.catalogue.network import NETWORK
from paddock.bench.hostile.catalogue.processes import PROCESSES
from paddock.bench.hostile.catalogue.protocol import PROTOCOL
from paddock.bench.hostile.catalogue.resources import RESOURCES
from paddock.bench.hostile.catalogue.tampering import TAMPERING

ATTACKS: tuple[Attack, ...] = (
    *FILES,
    *NETWORK,
    *PROCESSES,
    *KERNEL,
    *RESOURCES,
    *PROTOCOL,
    *IMPORTS,
    *TAMPERING,
)
