"""Trust: Ed25519 keys, signed statements, and who may sign what. Nothing here runs or imports what it judges."""
