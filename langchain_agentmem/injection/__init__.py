"""Injection: what is remembered goes into prompts, messages, states and requests, fenced as data.

It may import everything below the facade. Begin with `selection.py`, which decides what fits a question and how much of
it; `memory_injection.py` is the Runnable and graph node, `memory_middleware.py` the middleware of LangChain's agents.
"""
