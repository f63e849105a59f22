"""Made clusters: nodes with cards, pods that request them, and configurations, as plain objects."""
