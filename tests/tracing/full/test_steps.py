"""Tracing that nobody listens to loads none of the libraries that it would tell."""

import subprocess
import sys


def test_the_module_loads_no_library():
    program = (
        "import sys; from langchain_agentmem.tracing import Tracing\n"
        "with Tracing().step('memory.conversation.add'): pass\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'langchain_core', 'langgraph', 'langsmith', 'numpy', 'psycopg'}, loaded\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
