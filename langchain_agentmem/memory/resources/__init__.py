"""What an agent was given to work with: files, folders and references, as they were at a moment (document 004)."""
