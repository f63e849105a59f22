"""Where the keys of the binder and inventory come from."""

import pytest
from deviceshare.model import ConfigError
from deviceshare_cluster.signing import FILE, KEY, signing_keys

LONG, OTHER = "a-key-that-is-long-enough", "another-key-of-enough-bytes"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.delenv(FILE, raising=False)


def test_there_are_no_keys_by_default():
    assert signing_keys() == ()


def test_keys_stand_in_a_variable_or_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv(KEY, LONG)
    assert signing_keys() == (LONG.encode(),)
    (tmp_path / "keys").write_text(f"{OTHER}\n{LONG}\n")
    monkeypatch.setenv(FILE, str(tmp_path / "keys"))
    assert signing_keys() == (OTHER.encode(), LONG.encode())


@pytest.mark.parametrize("text", [None, "", "short", f"{LONG}\nshort"])
def test_a_file_that_cannot_be_used_is_an_error_that_shows_no_key(monkeypatch, tmp_path, text):
    path = tmp_path / "keys"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv(FILE, str(path))
    with pytest.raises(ConfigError) as raised:
        signing_keys()
    assert FILE in str(raised.value)
    assert "'short'" not in str(raised.value)
