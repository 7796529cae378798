"""INJECTED: what is remembered goes into prompts, messages, states and requests, as data."""
