"""`report.html`: one self-contained page about one run. Every section is a pure function of the run."""
