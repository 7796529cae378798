"""Where memory ARRIVES: the log of messages and rounds, and the views that other libraries know."""
