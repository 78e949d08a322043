"""Runs of each index kind: build, probe, merge.

Promises: a lookup reads the blocks it needs and no more; the newest run wins; damage raises, it never hides a record.
Must not know: the timeline (it is told which runs a version has), tables, Spark.
"""
