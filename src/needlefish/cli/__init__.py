"""The `needlefish` command: one file per subcommand, thin over the public API.

Promises: wrong arguments end in one message and the exit code of the error's class; `--json` everywhere; starting costs
no Spark and no compiler. Must not know: how anything is stored.
"""
