"""The contracts: Env, VectorEnv, Wrapper, EnvSpec, the registry and State.

Nothing is imported here, so that the command line can read the registry without loading NumPy.
"""
