"""The commands of `agentmem`. Each checks what it was given, calls the part that does the work, and prints."""
