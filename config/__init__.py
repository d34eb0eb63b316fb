"""Configuration: what operators write, checked where it enters."""
