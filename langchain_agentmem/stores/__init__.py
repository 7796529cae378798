"""What is LENT to LangGraph: its own contracts over this memory. Nothing else imports these modules."""
