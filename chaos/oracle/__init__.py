"""The judge: pure checks over a run directory. `judge.judge_run` is the way in."""
