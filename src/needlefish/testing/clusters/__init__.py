"""Spark as it runs elsewhere, on this machine: a master, workers and a Connect server in processes of their own.

`with spark_cluster() as cluster: …` gives an address for `spark_session(master=cluster.master)`; `connect_server(cluster)`
one for `spark_session(master=server.address)`. Both start from the Spark that pip installed, and end with this process.
"""

from needlefish.testing.clusters.connect import ConnectServer, connect_server
from needlefish.testing.clusters.standalone import SparkCluster, executor_pids, spark_cluster

__all__ = ["ConnectServer", "SparkCluster", "connect_server", "executor_pids", "spark_cluster"]
