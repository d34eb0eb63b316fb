"""Twins of the practice scenarios."""
