"""What `cat` prints of records: by a template, redacted, the last ones; and control records."""
