"""What people see of a restore: before it, and afterwards."""
