"""What people see of the results of jobs."""
