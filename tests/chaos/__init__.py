"""A program under load pushes to receivers to which everything happens, and every count is accounted for.

`program` is the program, which says at its end what its callers saw; `receivers` are the sockets it pushes to; `run`
does to them what Agents do, and compares. `PYTHONPATH=tests python -m chaos --help` makes the table of
docs/delivery.md.
"""
