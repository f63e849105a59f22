"""Options of the services: wrong values, also those of environment variables, are usage errors."""

import sys

import pytest
from deviceshare_bus.runtime.options import positive
from deviceshare_bus.runtime.service import parser
from deviceshare_bus.runtime.setup import parser as set_up_options
from deviceshare_bus.streams.creation import HOLD_SECONDS
from deviceshare_inventory import __main__ as inventory


@pytest.mark.parametrize("text", ["abc", "-1", "65536", "99999", "1.5", "", "٣"])
def test_a_wrong_port_is_refused(text, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        parser("x").parse_args([f"--health-port={text}"])
    monkeypatch.setenv("DEVICESHARE_HEALTH_PORT", text)
    with pytest.raises(SystemExit):
        parser("x").parse_args([])
    assert capsys.readouterr().err.count(f"--health-port: {text!r} is not valid: expected a port, 0 to 65535") == 2


def test_a_port_of_the_environment_is_read(monkeypatch):
    monkeypatch.setenv("DEVICESHARE_HEALTH_PORT", "65535")
    assert parser("x").parse_args([]).health_port == 65535


def test_a_wrong_log_level_is_refused(capsys):
    assert parser("x").parse_args(["--log-level", "DEBUG"]).log_level == "DEBUG"
    with pytest.raises(SystemExit):
        parser("x").parse_args(["--log-level", "foo"])
    assert "'foo' is not valid: expected debug, info, warning or error" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "x", ""])
def test_a_number_that_is_not_positive_is_refused(text, capsys):
    options = parser("x")
    options.add_argument("--patience", type=positive)
    assert options.parse_args(["--patience", "1.5"]).patience == 1.5
    with pytest.raises(SystemExit):
        options.parse_args([f"--patience={text}"])
    assert f"{text!r} is not valid: expected a number above 0" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["1.5", "-1", "nan", "inf", "x"])
def test_a_window_that_is_too_long_or_no_number_is_refused(text, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["inventory", f"--watch-window={text}"])
    with pytest.raises(SystemExit):
        inventory.start()
    monkeypatch.setattr(sys, "argv", ["inventory"])
    monkeypatch.setenv("DEVICESHARE_WATCH_WINDOW", text)
    with pytest.raises(SystemExit):
        inventory.start()
    expected = f"--watch-window: {text!r} is not valid: expected a number of seconds, 0 to 1"
    assert capsys.readouterr().err.count(f"{expected}\n") == 2


@pytest.mark.parametrize(
    ("variable", "option", "texts"),
    [
        ("DEVICESHARE_BUS_REPLICAS", "--bus-replicas", ["2", "x", ""]),
        ("DEVICESHARE_BUS_HOLD", "--bus-hold", ["-1", "nan", "inf", "x", ""]),
    ],
)
def test_wrong_options_of_streams_are_refused(variable, option, texts, monkeypatch, capsys):
    for text in texts:
        with pytest.raises(SystemExit):
            parser("x").parse_args([f"{option}={text}"])
        monkeypatch.setenv(variable, text)
        with pytest.raises(SystemExit):
            parser("x").parse_args([])
        assert capsys.readouterr().err.count(f"{option}: {text!r} is not valid: expected ") == 2
        monkeypatch.delenv(variable)


def test_options_of_streams_have_defaults(monkeypatch):
    options = parser("x").parse_args([])
    assert (options.bus_replicas, options.bus_hold) == (1, HOLD_SECONDS)
    monkeypatch.setenv("DEVICESHARE_BUS_HOLD", "0")
    monkeypatch.setenv("DEVICESHARE_BUS_REPLICAS", "3")
    options = parser("x").parse_args([])
    assert (options.bus_replicas, options.bus_hold) == (3, 0.0)
    assert set_up_options().parse_args([]).hold == 0.0
