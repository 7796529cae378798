"""Injection of memory into prompts, messages, states and requests, fenced as data.

It may import every folder below `agent_memory.py`. Begin with `memory_injection.py`: `MemoryInjection`, a Runnable and
graph node, selects the memory for a question within a budget. `memory_middleware.py` is the middleware for LangChain's
agents.
"""
