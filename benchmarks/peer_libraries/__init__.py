"""The libraries of peers.py, one module each, and what runs, measures and shows them.

catalogue.py     who takes part, with which settings, and where their authors recommend these
environments.py  a virtual environment for every library
problems.py      the splits: what a library is given, and what it is asked
answering.py     the process in which one library is trained and asked; of cofill it knows nothing
measuring.py     cofill's own evaluation of the answers
results.py       stored results, one small file a run
tables.py        tables of them
with_*.py        one library each: arrays to a fitted model that predicts or makes lists
"""
