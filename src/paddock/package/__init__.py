"""Packages: a folder with a manifest yields EnvSpecs and the permissions that they ask for; none of it is imported."""
