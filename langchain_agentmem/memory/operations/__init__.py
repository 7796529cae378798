"""Memory operations by the model: tools, and a text protocol for models without tools (document 004)."""
