"""toxiproxy behind typed, bounded calls: `adapter` (over toxiproxy-python), `emergency`, `server`."""
