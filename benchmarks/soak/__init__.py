"""A soak: writers, service workers and finders on one table, each a process of its own, for minutes; then every answer is checked.

`python -m benchmarks.soak --seconds 180 --on local` (or `--on s3`, with faults). Everybody notes what they did and saw; what a find may show
follows from the notes alone, so that no check takes part in the race.
"""
