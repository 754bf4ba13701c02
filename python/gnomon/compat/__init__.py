"""Other programs' interfaces over gnomon's engine: one changed import line each.

Every module carries the name of the package whose place it takes, and one table of what differs.
``python -m gnomon.compat`` lists them, with the line to change.
"""
