"""What happens without Spark: create, open, resolve, scan, write a chunkset, commit.

Promises: work over Arrow batches in bounded memory, the same in a Spark task and in a plain process.
Must not know: Spark, the command line, how a user spells a call.
"""
