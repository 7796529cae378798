"""Facts that know when they were true: subject, predicate and object, with their time and their sources."""
