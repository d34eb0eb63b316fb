"""Tests; the tree mirrors the source one to one."""
