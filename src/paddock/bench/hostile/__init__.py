"""A public benchmark of safe execution: hostile environments, and how each tier of isolation holds against them.

The judge never asks an attack how it went: it checks the canaries, from a process that the attack can't reach.

    attacks/            the hostile environments, each with its entries of the catalogue
    attack, catalogue   what an entry says; ATTACKS, all of them
    score               run_attack, and how a tier held
    trial               the process that makes and calls one hostile environment
    canaries            what attacks are after
    host_state          what an attack may leave on the host, or take from it
    neighbour           an environment beside the attack
"""
