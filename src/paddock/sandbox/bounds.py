"""What code behind a wall may say and how long it may take, where nothing else is said: ``Policy`` and the trusted side
have the same numbers.
"""

REWARD_RANGE = (-1e9, 1e9)
INFO_KB = 64
CALL_S = 30.0  # wall time of one request: a reset, a step, a render
START_S = 60.0  # wall time until it is made
