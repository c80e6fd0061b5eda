"""A simulated cluster of brokers, which works on while its disks are read: the model that backups are compared with."""
