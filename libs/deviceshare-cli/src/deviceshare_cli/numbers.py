"""The rule of all options that are numbers with a fraction."""

import math

import typer


def finite(param: typer.CallbackParam, value: float | None) -> float | None:
    """Return the value of an option if it is a finite number, or None. Raises BadParameter, which names the option.

    The range of an option does not exclude ``nan``, as no comparison with it is true, nor ``inf`` without a maximum.
    The callback of every option of the type float.
    """
    if value is None or math.isfinite(value):
        return value
    least, most = getattr(param.type, "min", None), getattr(param.type, "max", None)
    expected = "a finite number"
    if least is not None:
        expected = f"a number from {least:g} to {most:g}" if most is not None else f"a finite number, {least:g} or more"
    raise typer.BadParameter(f"{value} is not valid: expected {expected}")
