"""Twins of bot/."""
