"""Fields of input: each method returns the value, or an error that names object, field, value and what is right."""

from collections.abc import Callable

import pytest
from deviceshare.model import Field, RequestError, Source, as_text

VALUE = {"a": 5, "b": [{"c": "x"}], "d.e": None, "f": {"g": True}, "h": "", "i": [], "j": "y" * 300}


def root() -> Field:
    return Field(Source("Pod default/a", RequestError), VALUE)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda field: field["a"].whole(), 5),
        (lambda field: field["missing"].otherwise(3).whole(), 3),
        (lambda field: [item["c"].text() for item in field["b"].items()], ["x"]),
        (lambda field: field["b"][0]["c"].choice(("x", "y")), "x"),
        (lambda field: field["b"][7]["c"].optional_text(), ""),
        (lambda field: field["missing"].optional_mapping(), {}),
        (lambda field: field["d.e"].items(), []),
        (lambda field: field["f"].mapping(), {"g": True}),
    ],
)
def test_a_right_value_is_returned(read: Callable[[Field], object], expected: object) -> None:
    assert read(root()) == expected


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda field: field["a"].text(), "a: '5' is not valid: expected a text that is not empty"),
        (lambda field: field["a"].items(), "a: '5' is not valid: expected a list"),
        (lambda field: field["a"].optional_text(), "a: '5' is not valid: expected a text: write it in quotes"),
        (lambda field: field["a"].whole(6), "a: '5' is not valid: expected a whole number of 6 or more"),
        (lambda field: field["f"]["g"].whole(), "f.g: 'true' is not valid: expected a whole number of 0 or more"),
        (lambda field: field["b"][0].text(), 'b[0]: \'{"c":"x"}\' is not valid: expected a text that is not empty'),
        (lambda field: field["b"][0]["c"].choice(("y",)), "b[0].c: 'x' is not valid: expected one of y"),
        (lambda field: field["d.e"].mapping("a number"), "[d.e]: '' is not valid: expected a number"),
        (lambda field: field["i"].some_items("a list of cards"), "i: '[]' is not valid: expected a list of cards"),
        (lambda field: field.entry("h").mapping(), "[h]: '' is not valid: expected a mapping"),
        (lambda field: field.text(), "$: "),
    ],
)
def test_a_wrong_value_is_an_error(read: Callable[[Field], object], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(root())
    assert str(caught.value).startswith(f"Pod default/a: {message}")


def test_an_error_keeps_a_long_value_in_part() -> None:
    with pytest.raises(RequestError) as caught:
        root()["j"].whole()
    assert len(caught.value.problem.value) == 256


def test_an_error_names_the_position_where_it_is_known() -> None:
    source = Source("File x", RequestError, locate=lambda path, key: f"File x, at {path}{key}")
    with pytest.raises(RequestError, match=r"^File x, at a: a: '5' is not valid"):
        Field(source, VALUE)["a"].text()


def test_odd_values_are_shown_as_text() -> None:
    assert as_text({1: [None, 2.5]}) == '{"1":[null,2.5]}'
    assert as_text(None) == ""
