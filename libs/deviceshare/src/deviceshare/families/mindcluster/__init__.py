"""Ascend 310P vNPUs in MindCluster's mode: chips cut by templates while pods come and go."""

from deviceshare.families.mindcluster.family import MindCluster

__all__ = ["MindCluster"]
