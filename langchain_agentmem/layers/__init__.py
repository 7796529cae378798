"""Layered memory: core memory, recall memory and archival memory on branches, with resources.

It may import `facts` and the packages below. Begin with `layered_memory.py`, which combines all layers of a branch or a
thread. `layer.py` contains the code that the layers share, `memory_layers.py` the three layers. `compression.py` makes
texts fit their limits, and `prompt_context.py` formats them for a prompt. `layer_tools.py` are the tools with which a
model changes memory, and `memory_corrections.py` the methods for people. The layers work on a position: a named branch
or a thread (`rewinding/`). Their code is the same for both.
"""
