"""A short import path for the classes of `langchain_agentmem.messages.role_rounds`: posts between roles, in rounds."""

from langchain_agentmem.messages.role_rounds import (
    Attachment,
    AttachmentType,
    Conversation,
    Post,
    Retention,
    Round,
    RoundState,
    Scope,
    SharedMemoryEntry,
    new_id,
)

__all__ = [
    "Attachment", "AttachmentType", "Conversation", "Post", "Retention", "Round", "RoundState", "Scope",
    "SharedMemoryEntry", "new_id",
]  # fmt: skip
