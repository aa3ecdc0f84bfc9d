"""Run programs with limits on time and output, and decide whether they may run."""
