"""Log directories to tables in one run: find what is new, verify, export, maintain, report."""
