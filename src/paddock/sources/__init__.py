"""Environments written for other libraries, made into paddock's own. What they need is imported when one is made."""
