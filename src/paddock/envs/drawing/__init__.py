"""How the built-in environments look. Painters take plain numbers and return a pygame Surface.

They draw in memory: no display, no global setting of pygame, no random numbers.
"""
