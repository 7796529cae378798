"""LangGraph's checkpointer on top of the thread log (`threads/`), which stores checkpoints as rows.

Begin with `checkpoint_saver`, which implements LangGraph's `BaseCheckpointSaver` and imports the threads of other
savers. `checkpoint_codec` converts between LangGraph's values and the log: it parses configs, serializes values, and
determines which classes may be imported. `checkpoint_listing` implements `list` and `history`. `rewind_follower`
reports the saver's calls and the attempts of tasks to `rewinding/`.

The folder may import `base`, `language_models`, `messages`, `storage`, `threads`, `rewinding`, `tracing` and LangGraph.
"""
