from fractions import Fraction

import pytest
from deviceshare.model import LARGEST, FormatError, RequestError, format_quantity, mebibytes_hint, to_amount
from deviceshare.model.quantities import parse_quantity
from hypothesis import given
from hypothesis import strategies as st

SUBJECT, FIELD = "Pod default/a", "spec.containers[c].resources.limits[volcano.sh/gpu-memory]"


def to_count(value, subject, field):
    return to_amount("volcano.sh/gpu-memory", value, subject, field, RequestError)


def to_bytes(value, subject, field):
    return to_amount("memory", value, subject, field, RequestError)


def to_milli(value, subject, field):
    return to_amount("cpu", value, subject, field, RequestError)


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("0", 0),
        ("320000", 320_000),
        ("320k", 320_000),
        ("4Ki", 4096),
        ("1.5Gi", 1.5 * 2**30),
        ("500m", Fraction(1, 2)),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12E-1", Fraction(6, 5)),
        ("1E", 10**18),
        ("2Ei", 2 * 2**60),
        ("30Ei", 2**63 - 1),
        ("30E", 30 * 10**18),
        ("100n", Fraction(1, 10**7)),
        ("7u", Fraction(7, 10**6)),
        ("+5", 5),
        ("-5", -5),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        (8, 8),
        (0.1, Fraction(1, 10)),
        (1e3, 1000),
    ],
)
def test_every_form_that_kubernetes_writes_is_exact(text, exact):
    assert parse_quantity(text) == exact


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1K",
        "1ki",
        "1kB",
        "4GiB",
        "1e",
        "e3",
        "1e3Ki",
        "1e9999999",
        "--1",
        "0x10",
        "½",
        "\u0661",
        ".",
        "nan",
        "inf",
        "1" * 65,
    ],
)
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(ValueError, match="not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_float_that_is_no_number_is_refused(value):
    with pytest.raises(RequestError):
        to_count(value, SUBJECT, FIELD)


@pytest.mark.parametrize("value", ["-1", -1, "2.5", 2.5, "500m", "many", "", "1e16", "1Ei", "9" * 20])
def test_an_invalid_count_names_object_field_value_and_expected_value(value):
    with pytest.raises(RequestError) as caught:
        to_count(value, SUBJECT, FIELD)
    problem = caught.value.problem
    assert (problem.subject, problem.field, problem.value) == (SUBJECT, FIELD, str(value))
    assert "a whole number, 0 or more" in problem.expected


def test_counts_accept_all_forms_of_a_whole_number():
    assert [to_count(value, SUBJECT, FIELD) for value in ("3", 3, 3.0, "3000m", "3e0", "320k", "1Ki")] == [
        3, 3, 3, 3, 3, 320_000, 1024,
    ]  # fmt: skip


def test_a_part_of_a_byte_and_of_a_millicore_counts_as_a_whole_one():
    assert to_bytes("100m", SUBJECT, FIELD) == 1
    assert to_bytes("1.5Ki", SUBJECT, FIELD) == 1536
    assert to_milli("1u", SUBJECT, FIELD) == 1
    assert to_milli("0.25", SUBJECT, FIELD) == 250
    assert to_milli(2, SUBJECT, FIELD) == 2000


def test_the_unit_follows_the_resource():
    for resource, value, amount in (
        ("cpu", "2", 2000),
        ("memory", "1.0001", 2),
        ("ephemeral-storage", "1Gi", 2**30),
        ("hugepages-2Mi", "4Mi", 4 * 2**20),
        ("pods", "110", 110),
        ("volcano.sh/gpu-memory", "89424", 89424),
    ):
        assert to_amount(resource, value, SUBJECT, FIELD) == amount
    with pytest.raises(FormatError):
        to_amount("pods", "1.5", SUBJECT, FIELD)


@given(st.integers(0, LARGEST))
def test_a_whole_number_survives_every_way_of_writing_it(number):
    for text in (str(number), f"{number}.", f"{number}000m", f"{number}e0", f"{Fraction(number, 1)}"):
        assert to_count(text, SUBJECT, FIELD) == number
    assert to_count(f"{number // 1000}k", SUBJECT, FIELD) == number // 1000 * 1000
    assert to_bytes(f"{number // 1024}Ki", SUBJECT, FIELD) == number // 1024 * 1024


@given(st.one_of(st.text(max_size=30), st.text("0123456789.eEkKMi+-num", max_size=12), st.floats(), st.integers()))
def test_nothing_but_a_request_error_ever_comes_out(value):
    for convert in (to_count, to_bytes, to_milli):
        try:
            assert 0 <= convert(value, SUBJECT, FIELD) <= LARGEST
        except RequestError as error:
            assert error.problem.field == FIELD  # noqa: PT017


@pytest.mark.parametrize(
    ("amount", "binary", "text"),
    [
        (0, True, "0"),
        (1, False, "1"),
        (Fraction(1, 4), False, "250m"),
        (Fraction(5, 2), True, "2500m"),
        (6000, False, "6k"),
        (6000, True, "6000"),
        (4096, False, "4096"),
        (4096, True, "4Ki"),
        (1000, True, "1k"),
        (3 * 2**29, True, "1536Mi"),
        (-(2**20), True, "-1Mi"),
        (Fraction(1, 10**9), False, "1n"),
        (Fraction(1, 10**12), False, "1n"),
    ],
)
def test_quantities_are_written_as_kubernetes_writes_them(amount, binary, text):
    assert format_quantity(Fraction(amount), binary=binary) == text


@given(st.integers(0, 10**15), st.booleans())
def test_what_is_written_is_read_again(milli, binary):
    amount = Fraction(milli, 1000)
    assert parse_quantity(format_quantity(amount, binary=binary)) == amount


def test_device_memory_in_bytes_gets_a_hint() -> None:
    hint = mebibytes_hint("volcano.sh/vgpu-memory", to_amount("volcano.sh/vgpu-memory", "2Gi", "Pod a", "x"))
    assert hint.endswith("2147483648 was probably meant in bytes (did you mean '2048'?)")
    assert mebibytes_hint("volcano.sh/vgpu-memory", 98304) == ""
    assert mebibytes_hint("memory", 2**31) == mebibytes_hint("volcano.sh/vgpu-cores", 2**31) == ""
