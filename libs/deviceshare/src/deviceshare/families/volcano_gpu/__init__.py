"""NVIDIA GPUs that Volcano's device plugin shares by memory or gives whole."""
