"""The value types every room shares: names and records, no behaviour beyond their own meaning.

Promises: frozen records whose fields are what `spec/` says, decoded with defaults for absent fields.
Must not know: bytes, stores, tables, Spark.
"""
