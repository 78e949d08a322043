"""Table services: what keeps a table tidy while others read and write it.

Promises: propose, run, commit; a service that finds its inputs gone gives up, and a crash at any step leaves orphans only.
Must not know: Spark, the `Table` users hold, the command line.
"""
