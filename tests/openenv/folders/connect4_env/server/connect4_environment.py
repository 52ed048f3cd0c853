"""Two players in turn; four in a row win."""

from uuid import uuid4

import numpy as np

try:
    from core.env_server.interfaces import Environment
except ImportError:
    from openenv.core.env_server.interfaces import Environment

try:
    from ..models import Connect4Observation, Connect4State
except ImportError:
    from models import Connect4Observation, Connect4State


class Connect4Environment(Environment):
    """Six rows of seven."""

    def __init__(self, opponent=None):
        super().__init__()
        self._opponent = opponent
        self.reset()

    def reset(self, **kwargs):
        self.board = np.zeros((6, 7), dtype=np.int8)
        self._state = Connect4State(episode_id=str(uuid4()), step_count=0)
        return self._observe(0.0, False)

    def step(self, action, **kwargs):
        player, column = self._state.next_player, action.column
        self._state.step_count += 1
        if not 0 <= column < 7 or self.board[0, column]:
            return self._observe(-1.0, True)
        row = max(row for row in range(6) if not self.board[row, column])
        self.board[row, column] = player
        self._state.next_player = -player
        won = any(self._length(row, column, *way) >= 4 for way in ((0, 1), (1, 0), (1, 1), (1, -1)))
        return self._observe(np.float64(player) if won else 0.0, won or not (self.board == 0).any())

    def _length(self, row, column, down, right):
        length = 1
        for sign in (1, -1):
            r, c = row + sign * down, column + sign * right
            while 0 <= r < 6 and 0 <= c < 7 and self.board[r, c] == self.board[row, column]:
                length, r, c = length + 1, r + sign * down, c + sign * right
        return length

    def _observe(self, reward, done):
        legal = [column for column in range(7) if not self.board[0, column]]
        return Connect4Observation(
            board=self.board.tolist(), legal_actions=legal, reward=float(reward), done=bool(done)
        )

    @property
    def state(self):
        return self._state
