"""The gauges of who holds how much of which card model, which ``deviceshare usage`` reads from Prometheus."""

CARDS_METRIC, MEMORY_METRIC = "deviceshare_held_cards", "deviceshare_held_card_memory_bytes"
