"""Experiences: handcrafted instructions, each with the condition under which it applies.

An `ExperienceLibrary` reads them from a folder; an `ExperienceSelector` chooses those that apply and puts them into a
prompt. It may import `conversations`, `rewinding`, `language_models` and what is below. Begin with
`experience_library.py` (one selection), then `lexical_choice.py` (by words) and `model_choice.py` (by a model).

Experiences are files, since people write and review them. A selection reads the folder each time, and parses the files
that have changed. The words of the conditions are always compared first, as that takes a fraction of a millisecond;
whether a model decides, and of which candidates, is the strategy. A model's answers are remembered by what it was
asked, so nothing is stale. What is chosen stands before the question that it was chosen for, and in a thread it stays
there, so that a provider's cache of the prompt holds. It is fenced and marked, so that no log, compaction or
conversation takes it for something that was said. Who wants it in a system message writes that as a prompt with the
variable `{experiences}`.
"""
