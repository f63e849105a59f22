"""Ascend 310P vNPUs in MindCluster's mode: chips are partitioned dynamically by templates."""
