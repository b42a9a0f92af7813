"""The run's own span store: OTLP over HTTP in, one SQLite file out, forwarded to a backend if asked."""
