"""A dry run of a broker's next start on its log directories."""
