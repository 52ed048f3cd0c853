"""Toy text: small worlds of numbered states, where a table of outcomes or a deck of cards is the whole truth."""
