"""What device plugins write on nodes and read on pods: one module for each vendor's format, and nowhere else."""
