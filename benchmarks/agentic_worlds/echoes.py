"""paddock/Echo in one endless episode, for clients that can't pass an argument to it."""

from paddock.agentic.envs.echo import Echo


class Echoes(Echo):
    """Echo the word that you are told."""

    def __init__(self):
        super().__init__(turns=1_000_000_000)
