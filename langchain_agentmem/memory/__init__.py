"""RECALLED: what an agent remembers, in layers (document 004), and INJECTED: how a model is given it, and writes to it.

`LayeredMemory` has core, recall and archival memory, resources and branches. `layer_tools` and `MemoryProtocol` let a
model work on it, `MemoryInjection` and `MemoryMiddleware` show it to a model. `KGMemory` has facts, `RememberFacts`
learns them in a graph, and `fact_tools` let a model keep them. `ExperienceLibrary` has instructions, of which an
`ExperienceSelector` or `ExperienceMiddleware` shows a model those that apply. Names are loaded when they are first
used; a star import leaves out the middleware, which needs the extra `[agents]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_agentmem.lazily import lazily

if TYPE_CHECKING:
    from langchain_agentmem.memory.archival import ArchivalMemory
    from langchain_agentmem.memory.branching import BranchDiff, BranchTree
    from langchain_agentmem.memory.budget import Budget
    from langchain_agentmem.memory.compress import Compressor
    from langchain_agentmem.memory.consolidation import ConsolidationReport
    from langchain_agentmem.memory.core import CoreEntry, CoreMemory
    from langchain_agentmem.memory.experience.choosing import Selection
    from langchain_agentmem.memory.experience.drafting import Draft
    from langchain_agentmem.memory.experience.experience import Experience
    from langchain_agentmem.memory.experience.library import ExperienceLibrary, LibraryCheck, Usage
    from langchain_agentmem.memory.experience.middleware import ExperienceMiddleware as ExperienceMiddleware
    from langchain_agentmem.memory.experience.records import Feedback, Tally
    from langchain_agentmem.memory.experience.sections import section
    from langchain_agentmem.memory.experience.selector import ExperienceSelector
    from langchain_agentmem.memory.experience.template import SelectionTemplate
    from langchain_agentmem.memory.facts.fact import (
        Alias,
        Contradiction,
        Entity,
        Evidence,
        ExtractionFailure,
        Fact,
        FactsConfig,
        Neighbour,
        Source,
    )
    from langchain_agentmem.memory.facts.kg import KGMemory
    from langchain_agentmem.memory.facts.node import RememberFacts
    from langchain_agentmem.memory.facts.tools import fact_tools
    from langchain_agentmem.memory.injection.inject import MemoryInjection
    from langchain_agentmem.memory.injection.middleware import MemoryMiddleware as MemoryMiddleware
    from langchain_agentmem.memory.layers import LayeredMemory
    from langchain_agentmem.memory.merging import MergeReport
    from langchain_agentmem.memory.operations.protocol import PROTOCOL_PROMPT, MemoryProtocol
    from langchain_agentmem.memory.operations.tools import layer_tools
    from langchain_agentmem.memory.operations.updates import Outcome, Update, aapply, apply, parse
    from langchain_agentmem.memory.pressure import Pressure
    from langchain_agentmem.memory.recall import RecallMemory
    from langchain_agentmem.memory.resources.layer import ResourceMemory
    from langchain_agentmem.memory.resources.snapshots import build_resource_snapshot
    from langchain_agentmem.memory.secrets.patterns import SecretPattern
    from langchain_agentmem.memory.secrets.redaction import patterns_with, redact, redact_value
    from langchain_agentmem.memory.settings import LayersConfig
    from langchain_agentmem.memory.values import Event, Record

_HOMES = {
    "Alias": "facts.fact",
    "ArchivalMemory": "archival",
    "BranchDiff": "branching",
    "BranchTree": "branching",
    "Budget": "budget",
    "Compressor": "compress",
    "ConsolidationReport": "consolidation",
    "Contradiction": "facts.fact",
    "CoreEntry": "core",
    "CoreMemory": "core",
    "Draft": "experience.drafting",
    "Entity": "facts.fact",
    "Event": "values",
    "Evidence": "facts.fact",
    "Experience": "experience.experience",
    "ExperienceLibrary": "experience.library",
    "ExperienceMiddleware": "experience.middleware",
    "ExperienceSelector": "experience.selector",
    "ExtractionFailure": "facts.fact",
    "Fact": "facts.fact",
    "FactsConfig": "facts.fact",
    "Feedback": "experience.records",
    "KGMemory": "facts.kg",
    "LayeredMemory": "layers",
    "LayersConfig": "settings",
    "LibraryCheck": "experience.library",
    "MemoryInjection": "injection.inject",
    "MemoryMiddleware": "injection.middleware",
    "MemoryProtocol": "operations.protocol",
    "MergeReport": "merging",
    "Neighbour": "facts.fact",
    "Outcome": "operations.updates",
    "PROTOCOL_PROMPT": "operations.protocol",
    "Pressure": "pressure",
    "RecallMemory": "recall",
    "Record": "values",
    "RememberFacts": "facts.node",
    "ResourceMemory": "resources.layer",
    "SecretPattern": "secrets.patterns",
    "Selection": "experience.choosing",
    "SelectionTemplate": "experience.template",
    "Source": "facts.fact",
    "Tally": "experience.records",
    "Update": "operations.updates",
    "Usage": "experience.library",
    "aapply": "operations.updates",
    "apply": "operations.updates",
    "build_resource_snapshot": "resources.snapshots",
    "fact_tools": "facts.tools",
    "layer_tools": "operations.tools",
    "parse": "operations.updates",
    "patterns_with": "secrets.redaction",
    "redact": "secrets.redaction",
    "redact_value": "secrets.redaction",
    "section": "experience.sections",
}

__all__ = [
    "PROTOCOL_PROMPT",
    "Alias",
    "ArchivalMemory",
    "BranchDiff",
    "BranchTree",
    "Budget",
    "Compressor",
    "ConsolidationReport",
    "Contradiction",
    "CoreEntry",
    "CoreMemory",
    "Draft",
    "Entity",
    "Event",
    "Evidence",
    "Experience",
    "ExperienceLibrary",
    "ExperienceSelector",
    "ExtractionFailure",
    "Fact",
    "FactsConfig",
    "Feedback",
    "KGMemory",
    "LayeredMemory",
    "LayersConfig",
    "LibraryCheck",
    "MemoryInjection",
    "MemoryProtocol",
    "MergeReport",
    "Neighbour",
    "Outcome",
    "Pressure",
    "RecallMemory",
    "Record",
    "RememberFacts",
    "ResourceMemory",
    "SecretPattern",
    "Selection",
    "SelectionTemplate",
    "Source",
    "Tally",
    "Update",
    "Usage",
    "aapply",
    "apply",
    "build_resource_snapshot",
    "fact_tools",
    "layer_tools",
    "parse",
    "patterns_with",
    "redact",
    "redact_value",
    "section",
]


__getattr__, __dir__ = lazily(__name__, _HOMES)
