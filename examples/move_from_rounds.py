"""Import sessions of rounds and posts from YAML files, and read experiences.

Run it with `python examples/move_from_rounds.py`. It needs no extra and no key. Sessions keep the ids of their rounds
and posts. The import skips attachments of types that no longer exist, as the old system did.
"""

import tempfile
from pathlib import Path

from langchain_agentmem import AgentMemory

SESSION = """
id: conv-20250602-101500-1a2b3c4d
enabled: true
rounds:
- id: round-20250602-101500-5e6f7a8b
  user_query: Plot the sales of May.
  state: finished
  post_list:
  - id: post-20250602-101501-9c0d1e2f
    send_from: Planner
    send_to: CodeInterpreter
    message: Draw a bar chart of sales.csv.
    attachment_list:
    - {id: atta-1, type: init_plan, content: 1. Read the file}
    - {id: atta-2, type: plan, content: 1. Read the file  2. Draw the chart}
  - id: post-20250602-101502-3a4b5c6d
    send_from: CodeInterpreter
    send_to: Planner
    message: The chart is in sales.png.
    attachment_list:
    - {id: atta-3, type: execution_status, content: SUCCESS}
- id: round-20250602-101600-7e8f9a0b
  user_query: Send it to the moon.
  state: failed
  post_list: []
"""
EXPERIENCE = """
exp_id: 7
experience_text: Check that a file is there before you read it.
"""


def main(folder: Path) -> None:
    (folder / "session.yaml").write_text(SESSION, encoding="utf-8")
    experiences = folder / "experiences"
    experiences.mkdir()
    (experiences / "handcrafted_exp_files.yaml").write_text(EXPERIENCE, encoding="utf-8")

    with AgentMemory(folder / "agent.db") as memory:
        memory.import_from("taskweaver", folder / "session.yaml")
        memory.import_from("taskweaver", folder / "session.yaml")  # a second import changes nothing
        session = memory.session("conv-20250602-101500-1a2b3c4d")
        print([(each.user_query, each.state, len(each.post_list)) for each in session.rounds])
        first = session.get_role_rounds("Planner")[0].post_list[0]
        print(f"{first.send_from} to {first.send_to}: {first.message} {[a.type.value for a in first.attachment_list]}")

        print("--- it goes on where it was")
        task = session.create_round("Now those of June, please.")
        session.add_post(task.id, send_from="User", send_to="Planner", message=task.user_query)
        session.finish_round(task.id)
        print(
            len(session.get_role_rounds("Planner")), "rounds,", len(memory.conversation(session.session_id)), "messages"
        )

        print("--- and what was said is found")
        [found] = memory.search("Where is the bar chart?", limit=1)
        print(f"{found.text!r} in {found.conversation_id!r}, because of {found.why}")

        print("--- the folder of experiences is read as it is, the oldest files too")
        library = memory.experiences(experiences)
        print(library.validate().ok, [each.when for each in library.load()])
        print(library.selector(role="CodeInterpreter").select("Read the file of June.").ids)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
