"""What a model says of itself: who provides it, and what it is called."""

from __future__ import annotations

from typing import Any

from langchain_agentmem.compaction.overflow_recovery import PAYLOAD_LIMITS


def provider_of(model: Any) -> str:
    """The provider of a model, as `PAYLOAD_LIMITS` names it; empty for any other.

    Args:
        model: A LangChain model, or whatever else a model is called by.
    """
    model = getattr(model, "bound", model)
    try:
        told = model._get_ls_params().get("ls_provider")  # noqa: SLF001 - what LangChain tells of a model in a trace
    except Exception:  # noqa: BLE001 - a model need not tell
        told = None
    name = f"{told} {getattr(model, '_llm_type', '')}".lower()
    return next((known for known in PAYLOAD_LIMITS if known in name), "")


def name_of(model: Any) -> tuple[str, str]:
    """What a model is called, so that one that is made anew for each call is known again.

    Args:
        model: A LangChain model.
    """
    model = getattr(model, "bound", model)
    return type(model).__name__, str(getattr(model, "model_name", None) or getattr(model, "model", ""))
