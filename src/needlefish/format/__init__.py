"""Bytes to records and back, exactly as `spec/` says.

Promises: pure functions; damaged bytes raise CorruptError, a newer format UnsupportedError, never anything else.
Must not know: stores, filters, tables.
"""
