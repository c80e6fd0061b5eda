"""JSON: objects of one type decoded into Arrow columns, many at once."""
