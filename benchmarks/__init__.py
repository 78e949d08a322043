"""Measurements beside the peers, in one run: `make bench`, or one alone with `python -m benchmarks.NAME`."""
