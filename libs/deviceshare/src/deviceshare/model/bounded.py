"""Numbers in messages: bounded, so that no sum of them overflows 64 bits. Decoders reject others, and NaN."""

from typing import Annotated

import msgspec

from deviceshare.model.quantities import LARGEST

Amount = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
"""An amount, count, index or priority, at most :data:`~deviceshare.model.quantities.LARGEST`."""
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
"""An increment of a counter."""
Real = Annotated[float, msgspec.Meta(ge=-float(LARGEST), le=float(LARGEST))]
"""Unix time or a duration in seconds, or a weight."""
