"""Experiences: handcrafted instructions, each with the condition under which it applies.

An `ExperienceLibrary` reads them from a folder; an `ExperienceSelector` chooses those that apply and puts them into a
prompt. It may import `conversations`, `rewinding`, `language_models` and what is below. Begin with
`experience_library.py` (one selection), then `lexical_choice.py` (by words) and `model_choice.py` (by a model).

Experiences are files, since people write and review them. A selection reads the folder each time, and parses the files
that have changed. The words of the conditions are always compared first, as that takes a fraction of a millisecond.
The strategy determines whether a model decides, and about which candidates. A model's answers are cached by its whole
prompt, so nothing is stale. Chosen instructions are before the question that they were chosen for, and in a thread they
stay there, so that a provider's cache of the prompt stays valid. They are fenced and marked, so that no log, compaction
or conversation takes them for a message. To have them in a system message, write it as a prompt with the variable
`{experiences}`.
"""
