"""Numeric kernels: the hash, Bloom filters, cuckoo filters, postings.

Promises: pure functions of arrays; the same answer from the compiled path, the NumPy path and the scalar path; no
compiler and no numba at import. Must not know: bytes on storage beyond a bitset, stores, tables, Spark.
"""
