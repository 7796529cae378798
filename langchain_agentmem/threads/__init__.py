"""The state of LangGraph threads: checkpoints that cost only what changed.

A thread keeps the parts of its values, such as messages, on a *shelf*, numbered in the order in which they came. A
value is a *recipe*: a few ranges of the shelf, with small things written out. A longer list costs its new elements and
one more recipe, whatever its length; forks and copies of a thread share the shelf.
"""
