"""The pytest plugin under `--tenure`: checks of tests, limits, and results."""
