"""The only room that imports pyspark: the session, the pipeline, and frames over a table.

Promises: DataFrame API alone (mapInArrow and friends), so that local Spark, a cluster and Spark Connect run the same
code; errors of tasks arrive as ours. Must not know: the `Table` users hold, the command line.
"""
