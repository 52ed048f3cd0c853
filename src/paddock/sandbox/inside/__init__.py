"""What runs in the worker before anything of the environment does: it puts the wall up around itself.

Nothing here may import more than a little of the standard library, and nothing here runs in the trusted process.
"""
