"""The retriever module is imported only when used."""

import subprocess
import sys


def test_retriever_module_is_imported_lazily():
    code = (
        "import sys\nfrom langchain_agentmem import AgentMemory\n"
        "with AgentMemory() as memory:\n"
        "    memory.search('x')\n    before = 'langchain_core.retrievers' in sys.modules\n"
        "    memory.retriever()\n    print(before, 'langchain_core.retrievers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"
