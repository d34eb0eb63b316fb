"""Twins of bot/clients/: real servers on loopback."""
