"""Replacing and deleting rows by key, as work for tasks: write what is new, then find what it hides.

No task joins anything with the table. Keys come from what was written rather than from the frame again, so that a frame
that gives other rows each time it is asked cannot leave a row twice. What travels is keys, what is collected is bitmaps.
"""
