"""The gauges of who holds how much of which card model, which ``deviceshare usage`` reads from Prometheus."""

CARDS_METRIC, MEMORY_METRIC = "deviceshare_held_cards", "deviceshare_held_card_memory_bytes"
HOLDER_LABELS = ("namespace", "owner_kind", "queue", "type")
"""Their labels."""
RECORDED = {
    CARDS_METRIC: "deviceshare:held_cards:max",
    MEMORY_METRIC: "deviceshare:held_card_memory_bytes:max",
}
"""What the recording rules of the chart make of them: the series of all replicas of the metrics service as one."""
