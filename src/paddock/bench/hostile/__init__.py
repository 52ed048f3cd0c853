"""A public benchmark of safe execution: hostile environments, and how each tier of isolation holds against them.

The judge never asks an attack how it went: it looks at the canaries, from a process that the attack can't reach.
Begin with ``catalogue.ATTACKS`` and ``run.run_attack``. Nothing is imported here: attacks come by behind their walls.
"""
