"""How much of what answers a question does the memory find? Asked of any database, next to plain searches.

    from langchain_agentmem import AgentMemory
    from langchain_agentmem.evaluation import evaluate, read_questions

    with AgentMemory("agent.db") as memory:
        found = evaluate(memory, read_questions("questions.jsonl"), cuts=(5, 10), baselines=True)
        print(found.reports["this memory"].recall(10))
        for miss in found.misses:
            print(miss.question.text, miss.reason)

`agentmem eval` prints the same. Nothing here asks a model or the network, and nothing depends on chance or on the time:
who asks twice gets the same. Begin reading with `evaluator.py`. `transcripts.py` reads the files of LoCoMo, BEAM and
LongMemEval, `plain_search.py` is what a memory is compared with, and `recall_report.py` counts.

This folder may import the facade; no agent needs it, and nothing but the command line imports it.
"""

from langchain_agentmem.evaluation.evaluator import Evaluation, Miss, evaluate
from langchain_agentmem.evaluation.question_file import read_questions
from langchain_agentmem.evaluation.recall_report import EvaluationQuestion, QuestionOutcome, RecallReport
from langchain_agentmem.evaluation.transcripts import Transcript, feed, read_transcripts

__all__ = [
    "Evaluation",
    "EvaluationQuestion",
    "Miss",
    "QuestionOutcome",
    "RecallReport",
    "Transcript",
    "evaluate",
    "feed",
    "read_questions",
    "read_transcripts",
]
