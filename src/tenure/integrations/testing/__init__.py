"""What pytest's plugin does when `--tenure` asks for it: the watch over tests, its limits, its verdicts."""
