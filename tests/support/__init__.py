"""Helpers for the tests of every folder: a scripted model, graphs, histories."""
