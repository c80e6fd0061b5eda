"""Fields of what tiered storage puts into a bucket beside the logs."""
