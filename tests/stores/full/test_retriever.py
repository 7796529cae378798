"""Who does not ask for a retriever loads none."""

import subprocess
import sys


def test_the_facade_loads_no_retriever_until_it_is_asked_for():
    code = (
        "import sys\nfrom langchain_agentmem import AgentMemory\n"
        "with AgentMemory() as memory:\n"
        "    memory.search('x')\n    before = 'langchain_core.retrievers' in sys.modules\n"
        "    memory.retriever()\n    print(before, 'langchain_core.retrievers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"
