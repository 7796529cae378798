"""Secrets are taken out of what enters layered memory."""
