"""Ascend NPUs that HAMi's device plugin shares, by templates or by software."""
