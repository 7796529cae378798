"""Layered memory: core memory, recall memory and archival memory on branches, with resources.

It may import `facts` and what is below. Begin with `layered_memory.py`, which has all layers of a branch or a thread,
then `layer.py`, which they share, and `memory_layers.py`, which has each of them. `compression.py` keeps texts within
their limits, `prompt_context.py` shows them to a model, `layer_tools.py` lets a model change them,
`memory_corrections.py` a person. The layers work on a standpoint, a named branch or a thread's view (`rewinding/`), and
do not know which.
"""
