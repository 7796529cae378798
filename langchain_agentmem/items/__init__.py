"""Long-term items: values by namespace and key, which expire and are found. Nothing here knows LangGraph."""
