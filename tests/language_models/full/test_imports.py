"""Imports of the token counter in a new process."""

import subprocess
import sys
from pathlib import Path

from langchain_agentmem.language_models import tokens


def test_importing_loads_neither_langchain_nor_tiktoken():
    code = (
        "import sys, types; p = types.ModuleType('langchain_agentmem'); p.__path__ = [sys.argv[1]];"
        "sys.modules['langchain_agentmem'] = p; import langchain_agentmem.language_models.tokens as t;"
        "t.TokenCounter('estimate').count(['Hello'], tools=[]);"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('langchain_core', 'tiktoken', 'requests')))"
    )
    folder = str(Path(tokens.__file__).parents[1])
    ran = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
