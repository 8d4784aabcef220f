"""`pushmetrics demo`: a little service under load, and a picture of what its limits push.

The example to copy is in three modules, each with a limit of its own: ``driver``, ``model_server`` and ``verifier``.
The stage around them: ``program`` puts everything together, ``arrivals`` stands in for an Agent, ``pushed`` watches
what goes to a real one, ``table`` and ``plain`` draw it, ``comparison`` judges it, ``ending`` sums it up.

Importing this package imports nothing; its modules need the extra ``cli``.
"""
