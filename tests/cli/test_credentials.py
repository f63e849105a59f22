"""``deviceshare credentials``: what it writes, who may read it, and how it is replaced."""

import re
import shutil
import stat
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from deviceshare_bus.messages.permissions import USERS
from deviceshare_bus.wire.credentials import of_directory
from deviceshare_cli.credentials import files, rotation, upgrade
from deviceshare_cli.credentials.certificates import hosts_of
from deviceshare_cli.credentials.keys import public_of
from deviceshare_cli.credentials.manifests import manifests
from deviceshare_cli.errors import CommandError
from deviceshare_cli.main import app
from typer.testing import CliRunner

OF_USER = {"seed.nk", "ca.crt", "tls.crt", "tls.key"}
OF_SERVER = {"auth.conf", "ca.crt", "tls.crt", "tls.key", "routes-ca.crt", "routes.crt", "routes.key"}


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["credentials", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def content(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    directory = tmp_path / "new"
    run(str(directory))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in directory.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (directory, *directory.iterdir()) if path.is_dir()} == {0o700}
    assert set(content(directory)) == {
        *(f"{user}/{name}" for user in USERS for name in OF_USER),
        *(f"server/{name}" for name in OF_SERVER),
        "signing/keys",
        "http/secret",
        "namespace",
    }
    assert list(tmp_path.iterdir()) == [directory]


def test_each_user_has_its_own_key_and_the_server_only_public_ones(tmp_path: Path) -> None:
    files.write(tmp_path, (), tls=False)
    text = (tmp_path / "server" / "auth.conf").read_text()
    seeds = {user: (tmp_path / user / "seed.nk").read_text().strip() for user in USERS}
    assert len(set(seeds.values())) == len(USERS)
    for user, seed in seeds.items():
        assert seed not in text
        assert text.count(f"nkey: {public_of(seed)}\n") == 1
        assert of_directory(tmp_path, user).public_key() == public_of(seed)
    assert not list(tmp_path.rglob("*.crt"))


def test_the_names_in_the_certificates(tmp_path: Path) -> None:
    run(str(tmp_path), "--namespace", "sharing", "--host", "bus.example", "--host", "10.0.0.7", "--days", "30")
    found = x509.load_pem_x509_certificate((tmp_path / "server" / "tls.crt").read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = set(names.get_values_for_type(x509.DNSName))
    assert {
        "localhost",
        "bus",
        "bus.sharing.svc",
        "bus-2.bus",
        "*.bus.sharing.svc.cluster.local",
        "bus.example",
    } <= hosts
    assert "10.0.0.7" in {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert 29 < (found.not_valid_after_utc - found.not_valid_before_utc).total_seconds() / 86400 < 31
    user = x509.load_pem_x509_certificate((tmp_path / "metrics" / "tls.crt").read_bytes())
    purposes = user.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]


def test_the_key_of_no_authority_is_kept(tmp_path: Path) -> None:
    files.write(tmp_path, ("localhost",))
    keys = {path.name for path in tmp_path.rglob("*.key")}
    assert keys == {"tls.key", "routes.key"}
    authorities = {(tmp_path / "server" / name).read_text() for name in ("ca.crt", "routes-ca.crt")}
    assert len(authorities) == 2, "servers trust one another by an authority that signs no users"


def test_secrets_have_the_files_and_nothing_is_kept() -> None:
    secrets = list(yaml.safe_load_all(run("--format", "kubernetes", "--namespace", "sharing")))
    named = {each["metadata"]["name"]: each for each in secrets}
    users = {f"deviceshare-bus-{user}" for user in USERS}
    assert set(named) == {*users, "deviceshare-bus-server", "deviceshare-signing", "deviceshare-http"}
    assert {each["kind"] for each in secrets} == {"Secret"}
    assert {each["metadata"]["namespace"] for each in secrets} == {"sharing"}
    assert all(set(named[user]["stringData"]) == OF_USER for user in users)
    assert set(named["deviceshare-bus-server"]["stringData"]) == OF_SERVER
    assert set(named["deviceshare-signing"]["stringData"]) == {"keys"}


def test_a_rotation_has_two_steps(tmp_path: Path) -> None:
    run(str(tmp_path))
    old = content(tmp_path)
    run(str(tmp_path), "--rotate")
    between = content(tmp_path)
    for user in USERS:
        assert between[f"{user}/seed.nk"] != old[f"{user}/seed.nk"]
        for content_of in (old, between):
            assert f"nkey: {public_of(content_of[f'{user}/seed.nk'])}\n" in between["server/auth.conf"]
        assert between[f"{user}/ca.crt"].endswith(old[f"{user}/ca.crt"]), "both authorities"
    assert between["server/tls.crt"] == old["server/tls.crt"], "clients with old files know no other"
    run(str(tmp_path), "--finish")
    new = content(tmp_path)
    assert set(new) == set(old)
    for user in USERS:
        assert public_of(old[f"{user}/seed.nk"]) not in new["server/auth.conf"]
        assert new[f"{user}/seed.nk"] == between[f"{user}/seed.nk"]
        assert between[f"{user}/ca.crt"] == new[f"{user}/ca.crt"] + old[f"{user}/ca.crt"]
    assert new["server/tls.crt"] != old["server/tls.crt"]
    for name in ("signing/keys", "http/secret"):
        assert old[name] == between[name] == new[name], "services would read them at different times"


def names_of(directory: Path) -> set[str]:
    return set(hosts_of((directory / "server" / "tls.crt").read_text()))


def test_a_rotation_keeps_the_names_and_the_namespace(tmp_path: Path) -> None:
    run(str(tmp_path), "--namespace", "sharing", "--host", "bus.example", "--host", "10.0.0.7")
    old = names_of(tmp_path)
    assert {"bus.example", "10.0.0.7", "bus.sharing.svc"} <= old
    for option in ("--rotate", "--finish"):
        text = run(str(tmp_path), option, "--format", "kubernetes")
        assert {each["metadata"]["namespace"] for each in yaml.safe_load_all(text)} == {"sharing"}
    assert names_of(tmp_path) == old
    run(str(tmp_path), "--rotate", "--host", "bus.other")
    run(str(tmp_path), "--finish")
    assert names_of(tmp_path) == old | {"bus.other"}
    done = CliRunner().invoke(app, ["credentials", str(tmp_path), "--rotate", "--namespace", "another"])
    assert done.exit_code == 1
    assert "is for the namespace sharing, not another" in str(done.exception)


class FailingPut:
    """``files.put`` that fails at one call, as a full disk or a kill would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._put = files.put
        self.left = -1
        monkeypatch.setattr(files, "put", self)

    def __call__(self, path: Path, text: str) -> None:
        if self.left == 0:
            raise CommandError(f"cannot write {path}: No space left on device")
        self.left -= 1
        self._put(path, text)


def test_an_interrupted_command_leaves_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put, directory = FailingPut(monkeypatch), tmp_path / "credentials"
    for put.left in range(0, 33, 3):
        with pytest.raises(CommandError, match="No space left"):
            files.write(directory, ("localhost",))
        assert not list(tmp_path.iterdir())
    (tmp_path / ".credentials.new" / "server").mkdir(parents=True)  # of a process that was killed
    directory.mkdir()
    put.left = -1
    files.write(directory, ("localhost",))
    assert list(tmp_path.iterdir()) == [directory]
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_failed_write_leaves_no_key_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(CommandError, match="No space left"):
        files.put(tmp_path / "seed.nk", "SU")
    assert not list(tmp_path.iterdir())


def is_consistent(directory: Path) -> bool:
    """Return whether nats-server accepts the key and knows the authority of every user, and each user that of it."""
    found = content(directory)
    server = x509.load_pem_x509_certificate(found["server/tls.crt"].encode())
    for user in USERS:
        if public_of(found[f"{user}/seed.nk"]) not in found["server/auth.conf"]:
            return False
        own = x509.load_pem_x509_certificate(found[f"{user}/tls.crt"].encode())
        for certificate, authorities in ((own, found["server/ca.crt"]), (server, found[f"{user}/ca.crt"])):
            if not any(signed(certificate, each) for each in x509.load_pem_x509_certificates(authorities.encode())):
                return False
    return True


def signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except InvalidSignature:
        return False
    return True


@pytest.mark.parametrize("tls", [True, False])
def test_an_interrupted_step_is_completed_by_repeating_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    files.write(tmp_path, ("localhost",), tls=tls)
    put = FailingPut(monkeypatch)
    for step, option in ((rotation.begin, "--rotate"), (rotation.finish, "--finish")):
        before, failures, left = content(tmp_path), 0, 0
        while True:
            put.left, prepared = left, (tmp_path / "rotation").exists()
            try:
                step(tmp_path)
                break
            except CommandError:
                failures += 1
            if not (tmp_path / "rotation").exists():
                assert content(tmp_path) == before
                left += 1
                continue
            left = left + 1 if prepared else 0
            with pytest.raises(CommandError, match=f"a rotation was interrupted: {option} completes it"):
                manifests(tmp_path, "sharing")
            if option == "--rotate":
                with pytest.raises(CommandError, match="--rotate completes it"):
                    rotation.finish(tmp_path)
        assert failures > (7 if option == "--rotate" else 0)
        put.left = -1
        assert not list(tmp_path.rglob(".*")), "rests of interrupted calls"
        if tls:
            assert manifests(tmp_path, "sharing")
            assert is_consistent(tmp_path)
    assert not (tmp_path / "rotation").exists()


def test_steps_in_the_wrong_order_change_nothing(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot read"):
        rotation.begin(tmp_path, ())
    files.write(tmp_path, (), tls=False)
    with pytest.raises(CommandError, match=r"is not empty$"):
        files.write(tmp_path, (), tls=False)
    with pytest.raises(CommandError, match="no rotation has begun"):
        rotation.finish(tmp_path)
    rotation.begin(tmp_path, ())
    before = content(tmp_path)
    with pytest.raises(CommandError, match="a rotation has begun"):
        rotation.begin(tmp_path, ())
    assert content(tmp_path) == before


@pytest.mark.parametrize("arguments", [(), ("--format", "kubernetes")])
def test_a_directory_of_an_earlier_version_is_upgraded(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    files.write(tmp_path, ("localhost",))
    old = content(tmp_path)
    # A version with one user less and other permissions.
    shutil.rmtree(tmp_path / "reader")
    text = old["server/auth.conf"].replace('"$JS.API.INFO", ', "")
    text = re.sub(r"    # reader\n    \{.*?\n    \}\n", "", text, flags=re.DOTALL)
    (tmp_path / "server" / "auth.conf").write_text(text)
    (tmp_path / "namespace").unlink()
    before = content(tmp_path)
    with pytest.raises(CommandError, match="upgrade the installation before you rotate"):
        run(str(tmp_path), "--rotate")
    assert content(tmp_path) == before
    printed = run(str(tmp_path), *arguments)
    assert arguments or printed == f"{tmp_path} has credentials: permissions changed\n"
    new = content(tmp_path)
    assert is_consistent(tmp_path)
    assert {name: new[name] for name in new if not name.startswith(("reader/", "server/"))} == {
        name: old[name] for name in old if not name.startswith(("reader/", "server/"))
    }
    old_key, new_key = (public_of(each["reader/seed.nk"]) for each in (old, new))
    assert new["server/auth.conf"] == old["server/auth.conf"].replace(old_key, new_key)
    printed = run(str(tmp_path), *arguments)
    assert arguments or printed == f"{tmp_path} has credentials: nothing changed\n"
    assert content(tmp_path) == new
    run(str(tmp_path), "--rotate")
    between = content(tmp_path)
    assert run(str(tmp_path)) == f"{tmp_path} has credentials: a rotation has begun, nothing changed\n"
    assert content(tmp_path) == between


def test_a_rotation_of_another_version_names_that_version(tmp_path: Path) -> None:
    files.write(tmp_path, ("localhost",))
    (tmp_path / "rotation" / "server").mkdir(parents=True)
    before = content(tmp_path)
    for arguments in (("--rotate",), ("--finish",), ("--format", "kubernetes")):
        with pytest.raises(CommandError, match="another version of this command has begun the rotation"):
            run(str(tmp_path), *arguments)
    assert content(tmp_path) == before


def test_a_rotation_that_an_earlier_version_began_has_the_users_of_that_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(tmp_path, ("localhost",))
    with monkeypatch.context() as earlier:
        fewer = {user: rights for user, rights in USERS.items() if user != "reader"}
        for module in (files, rotation):
            earlier.setattr(module, "USERS", fewer)
        rotation.begin(tmp_path)
    shutil.rmtree(tmp_path / "reader")
    found = {each["metadata"]["name"] for each in yaml.safe_load_all(run(str(tmp_path), "--format", "kubernetes"))}
    assert "deviceshare-bus-binder" in found
    assert "deviceshare-bus-reader" not in found
    run(str(tmp_path), "--finish")
    assert "deviceshare-bus-reader" in run(str(tmp_path), "--format", "kubernetes")
    assert is_consistent(tmp_path)


@pytest.mark.parametrize(
    ("added", "named"),
    [
        ("    # exporter\n    {\n      nkey: UAAAA\n    }\n".replace("UAAAA", f"U{'A' * 55}"), "exporter"),
        (f"    {{nkey: U{'A' * 55}}}\n", f"U{'A' * 55}"),
        ("    {user: exporter, password: secret}\n", "password, user: exporter"),
    ],
)
def test_users_that_were_added_by_hand_are_not_lost(tmp_path: Path, added: str, named: str) -> None:
    run(str(tmp_path))
    path = tmp_path / "server" / "auth.conf"
    text = path.read_text()
    path.write_text(text := text.replace("    users: [\n", f"    users: [\n{added}", 1))
    with pytest.raises(CommandError, match=rf"would be lost: .*{named}.*credentials\.generate=false"):
        run(str(tmp_path))
    assert path.read_text() == text


def test_an_edited_file_of_users_is_not_overwritten(tmp_path: Path) -> None:
    files.write(tmp_path, ("localhost",))
    (tmp_path / "server" / "auth.conf").write_text("authorization { token: a }\n")
    with pytest.raises(CommandError, match=r"was not generated; with an own file set credentials\.generate=false"):
        upgrade.upgrade(tmp_path, "sharing")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--days", "5000000"),
        ("--host", "ü.example"),
        ("--host", ""),
        ("--host", "bad host"),
        ("--host", "10.0.0.4/24"),
        ("--namespace", "Bad NS"),
        ("--no-tls", "--format", "kubernetes"),
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_written(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["credentials", str(tmp_path / "new"), *arguments])
    assert done.exit_code == 2, done.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["metrics/seed.nk", "server/tls.key", "signing/keys", "server/auth.conf"])
def test_secrets_that_pods_could_not_use_are_not_printed(tmp_path: Path, name: str) -> None:
    files.write(tmp_path, ("localhost",))
    (tmp_path / name).unlink()
    with pytest.raises(CommandError, match=f"has no {Path(name).name}, which pods mount"):
        manifests(tmp_path, "sharing")


@pytest.mark.parametrize("name", ["placement/seed.nk", "server/tls.crt"])
def test_a_file_that_is_not_what_it_should_be_stops_a_rotation(tmp_path: Path, name: str) -> None:
    files.write(tmp_path, ("localhost",))
    (tmp_path / name).write_text("something else\n")
    before = content(tmp_path)
    with pytest.raises(CommandError, match="does not hold"):
        rotation.begin(tmp_path)
    assert content(tmp_path) == before


@pytest.mark.parametrize("arguments", [(), ("--rotate",), ("--finish",), ("--rotate", "--finish", "d")])
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, ["credentials", *arguments]).exit_code == 2
