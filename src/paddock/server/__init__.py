"""What listens: the environment service. Its session layer is pure, so that a simulator can drive it."""
