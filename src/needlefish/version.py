"""Who is writing: kept in every log entry, so that a history says which release wrote what."""

__version__ = "0.1.0"

WRITER = f"needlefish {__version__}"
