"""NVIDIA GPUs that HAMi's device plugin shares."""
