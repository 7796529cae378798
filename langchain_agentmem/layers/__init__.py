"""Layered memory: core memory, recall memory and archival memory on branches, with resources.

It may import `facts` and the packages that `facts` may import. Begin with `layered_memory.py`, which combines all
layers of a branch or a thread. `layer.py` contains the code that the layers share, `memory_layers.py` the three layers.
`compression.py` shortens texts to their limits, `prompt_context.py` formats memory for a prompt. `layer_tools.py`
contains the tools with which a model changes memory, and `memory_corrections.py` the methods for people. The layers
work on a position (`rewinding/`): a named branch or a thread. The code of the layers is the same for both.
"""
