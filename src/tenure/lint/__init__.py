"""`tenure check` for many files: which files, settings, cache, suppressions, baseline, fixes, the language server."""
