"""Measurements, run by hand and by `make bench`."""
