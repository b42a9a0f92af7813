"""Scale on paper: what a step, the beats, an abort and a death cost as the fleet grows."""
