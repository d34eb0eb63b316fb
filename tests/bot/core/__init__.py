"""Twins of bot/core/: tables and properties, no sleep."""
