"""The kit that ships: contracts every store must pass, stores and clocks that fail on purpose, tables without Spark.

Promises: what our own tests lean on, for whoever builds beside us. May look at every room but the command line; no room
looks at it.
"""
