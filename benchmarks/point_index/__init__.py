"""Point indexes measured: aligned cuckoo filters beside hashed postings, on synthetic ranges of integers.

`python -m benchmarks.point_index` measures what fits into minutes, `--large` the largest that fits the machine, `--plots`
redraws the figures from the kept results. Nothing here fails for being slow: budgets are printed as met or missed.
"""
