"""What is to be done, and when: handcrafted experiences, of which a model is shown those that apply (document 000).

An `ExperienceLibrary` reads them from a folder, an `ExperienceSelector` chooses among them and puts what they say into
a prompt.
"""
