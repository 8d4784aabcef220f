"""The live picture: what a receiver holds, as rows, and how rows look on a terminal, in lines and as JSON.

``board`` makes rows of what arrived (``limits``, ``others``, ``health``, put in ``order``). Three ways to show them:

- ``screen`` draws the ``table``: ``names``, ``columns`` and ``plan`` say what is in it, ``others_table`` and ``footer``
  stand below it;
- ``plain`` writes lines;
- ``jsonlines`` writes JSON.

``summary`` is the end of the first two, and ``output`` chooses among them for ``pushmetrics listen``. What is drawn
needs rich; rows, lines and JSON do not.
"""
