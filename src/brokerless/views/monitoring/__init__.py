"""Formats what a check found for the programs that watch: Prometheus, JUnit's readers, SARIF's readers."""
