"""Open-loop load with planned aborts; writes the client's history of every request."""
