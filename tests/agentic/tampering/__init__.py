"""Attempts of an agent's code to get a reward that it did not earn, and careless graders on which they succeed."""
