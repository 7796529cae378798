"""Where memory is FOUND: text is analysed, candidates are fetched, and the best are ranked and explained."""
