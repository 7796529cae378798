"""The audit trail: every prompt and reply, complete, with what is junk hidden and never destroyed (document 002)."""
