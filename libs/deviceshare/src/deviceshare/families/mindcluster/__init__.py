"""Ascend 310P vNPUs in MindCluster's mode: chips are partitioned dynamically by templates."""

from deviceshare.families.mindcluster.family import MindCluster

__all__ = ["MindCluster"]
