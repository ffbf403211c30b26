"""Speed and memory beside what else one would call: ``make bench`` (run.py), ``make studies`` (compare.py).

A group of rows is a module ``rows_NAME.py`` with a function ``rows(quick)``; run.py lists the groups.
"""
