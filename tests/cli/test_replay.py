"""`deviceshare replay` on core logs of the metrics service and of a toy core."""

import json
import sys
from types import ModuleType

import msgspec
import pytest
from deviceshare.model import NodeFact
from deviceshare_bus.cores.core import CaughtUp, Command, Core, Event, Log, Now, Tick
from deviceshare_bus.cores.core_log import CoreLog, Header
from deviceshare_cli import replay
from deviceshare_cli.errors import CommandError
from deviceshare_cli.main import app
from deviceshare_metrics.core import build_core
from deviceshare_metrics.core.events import FactReceived
from typer.testing import CliRunner


class Said(Event, frozen=True):
    word: str


class Revisions(Event, frozen=True):
    found: dict[tuple[str, str], str]


class Echo:
    """Logs each word with a suffix, and fails on the word "fail"."""

    open_work = 0

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix

    def next_due(self, now: Now) -> float | None:
        return None

    def handle(self, event: Event, now: Now) -> list[Command]:
        match event:
            case Said(word="fail"):
                raise RuntimeError("a defect of the core")
            case Said(word=word):
                return [Log("info", "said"), Log("info", word + self._suffix)]
        return []


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    module = ModuleType("toy_core")
    module.build_core = lambda arguments, keys=(): Echo(**arguments)
    module.decode_event = msgspec.msgpack.Decoder(Said | Revisions | Tick).decode
    monkeypatch.setitem(sys.modules, "toy_core", module)
    monkeypatch.setitem(replay._CORES, "toy", "toy_core")


def dump(path, core: Core, *events: Event, service="toy", arguments=None, limit=100):
    log = CoreLog(service, f"{service}-1", {"suffix": "!"} if arguments is None else arguments, limit)
    for at, event in enumerate(events):
        now = Now(100.0 + 0.5 * at, 1_700_000_000.0 + at)
        commands: list[Command] = []
        try:
            commands = core.handle(event, now)
        except RuntimeError:
            pass
        finally:
            log.append(now, event, commands)
    path.write_bytes(log.dump())
    return path


def run(path, *options):
    result = CliRunner().invoke(app, ["replay", str(path), *options])
    if isinstance(result.exception, CommandError):
        raise result.exception
    return result


def test_a_core_log_of_the_metrics_service_is_replayed(tmp_path):
    fact = FactReceived("cluster.node.a", NodeFact(name="a"))
    path = dump(tmp_path / "x", build_core({}), fact, CaughtUp("CLUSTER"), Tick(), service="metrics", arguments={})
    result = run(path)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "metrics metrics-1: 0 entries dropped, arguments {}",
        '    0.000000 FactReceived {"subject":"cluster.node.a","fact":' + msgspec.json.encode(fact.fact).decode() + "}",
        '    0.500000 CaughtUp {"stream":"CLUSTER"}',
        "    1.000000 Tick",
    ]
    assert result.stderr == f"{path}: 3 events replayed, all commands are identical\n"


def test_keys_of_several_parts_are_joined(tmp_path):
    result = run(dump(tmp_path / "x", Echo("!"), Revisions({("default", "a"): "1"})))
    assert result.stdout.splitlines()[1] == '    0.000000 Revisions {"found":{"default/a":"1"}}'


def test_commands_that_differ_are_marked(tmp_path):
    path = dump(tmp_path / "x", Echo("?"), Said("a"), Tick())
    result = run(path)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        'toy toy-1: 0 entries dropped, arguments {"suffix":"!"}',
        '    0.000000 Said {"word":"a"}',
        '             > Log {"level":"info","message":"said","details":{}}',
        '             - Log {"level":"info","message":"a?","details":{}}',
        '             + Log {"level":"info","message":"a!","details":{}}',
        "    0.500000 Tick",
    ]
    assert result.stderr == f"{path}: 2 events replayed, the commands of 1 differ\n"


def test_json_has_one_object_per_line(tmp_path):
    result = run(dump(tmp_path / "x", Echo("?"), Said("a"), Tick()), "--json")
    header, said, tick = map(json.loads, result.stdout.splitlines())
    assert (header["service"], header["arguments"], header["dropped"]) == ("toy", {"suffix": "!"}, 0)
    assert (said["at"], said["wall"], said["event"]) == (0.0, 1_700_000_000.0, {"event": "Said", "word": "a"})
    assert [each["message"] for each in said["commands"]] == ["said", "a?"]
    assert [each["message"] for each in said["replayed"]] == ["said", "a!"]
    assert (said["identical"], tick["identical"]) == (False, True)
    assert "replayed" not in tick


def test_an_incomplete_log_is_shown_without_replay(tmp_path):
    path = dump(tmp_path / "x", Echo("?"), Said("a"), Said("b"), limit=1)
    result = run(path)
    assert result.exit_code == 0
    assert '"message":"b?"' in result.stdout
    assert result.stderr == f"{path}: 1 events, not replayed: 1 earlier entries were dropped\n"


def test_a_log_of_an_unknown_service_is_shown_without_replay(tmp_path):
    path = dump(tmp_path / "x", Echo("?"), Said("a"), service="other")
    result = run(path)
    assert result.exit_code == 0
    assert '"message":"a?"' in result.stdout
    assert result.stderr == f"{path}: 1 events, not replayed: other is not a service of this version\n"


def test_a_failure_of_the_core_is_reproduced(tmp_path):
    result = run(dump(tmp_path / "x", Echo("!"), Said("a"), Said("fail"), Tick()))
    assert result.exit_code == 1
    assert "the core raised RuntimeError('a defect of the core')" in result.stdout
    assert "Traceback" in result.stderr
    assert "Tick" in result.stdout


def test_files_that_are_no_core_logs_are_refused_in_one_line(tmp_path):
    path = dump(tmp_path / "x", Echo("!"), Said("a"), Tick())
    whole = path.read_bytes()
    frame = msgspec.msgpack.encode(Header("toy", "toy-1", {}, 0, v=2))
    nothing = msgspec.msgpack.encode([1, 2])
    for content, error in (
        (b"", "the file is not a core log: "),
        (b"name: pod\nkind: Pod\n" * 9, "the file is not a core log, or is cut off"),
        (len(nothing).to_bytes(4, "big") + nothing, "the file is not a core log: "),
        (whole[:-3], "the file is not a core log, or is cut off"),
        (len(frame).to_bytes(4, "big") + frame, "the core log has version 2, expected 1"),
    ):
        path.write_bytes(content)
        with pytest.raises(CommandError) as raised:
            run(path)
        assert str(raised.value).startswith(f"{path}: {error}")
        assert "\n" not in str(raised.value)
    with pytest.raises(CommandError, match="No such file"):
        run(tmp_path / "none")


@pytest.mark.parametrize("service", ["toy", "other"])
def test_a_damaged_entry_is_refused_in_one_line(tmp_path, service):
    whole = dump(tmp_path / "x", Echo("!"), Said("a"), service=service).read_bytes()
    for before, after in (
        (b"\xa5event", b"\xa5\xffvent"),
        (b"\xa5event", b"\xa5eVent"),
        (b"\xa7command", b"\xa7kommand"),
        (b"\x92\x84", b"\xc0\xc0"),  # nothing instead of the list of commands
        (b"said", b"sa\xffd"),
    ):
        assert whole.count(before) >= 1
        path = tmp_path / "damaged"
        path.write_bytes(whole[: whole.index(before)] + after + whole[whole.index(before) + len(before) :])
        with pytest.raises(CommandError) as raised:
            run(path)
        assert str(raised.value).startswith(f"{path}: the file is not a core log: ")
        assert "\n" not in str(raised.value)


def test_arguments_and_events_of_another_version_are_refused(tmp_path):
    with pytest.raises(CommandError, match=r"the arguments are not those of this version: .*colour"):
        run(dump(tmp_path / "x", Echo("!"), arguments={"colour": "red"}))
    with pytest.raises(CommandError, match=r"the event at 0\.0 is not one of this version: .*CaughtUp"):
        run(dump(tmp_path / "x", Echo("!"), CaughtUp("LEDGER")))


def test_lines_are_cut_at_the_width_of_a_terminal(tmp_path, monkeypatch, capsys):
    path = dump(tmp_path / "x", Echo("!"), Said("字" * 100))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("os.get_terminal_size", lambda: type("Size", (), {"columns": 40}))
    assert replay.replay(path, as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == '    0.000000 Said {"word":"' + "字" * 6
    assert max(map(len, lines)) <= 40
