"""Twins of config/."""
