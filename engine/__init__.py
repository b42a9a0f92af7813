"""The serving engine under test: core decisions, model, transfer, telemetry and server processes."""
