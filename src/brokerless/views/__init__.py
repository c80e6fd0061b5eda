"""Output for people: text, tables, templates."""
