"""What must hold at every step of a simulation, and at its end."""
