"""The Python data source: `spark.read.format("needlefish")` and `df.write.format("needlefish")`.

Spark calls it from Python processes of its own, on the driver's machine to plan and on the executors' to read and write.
"""
