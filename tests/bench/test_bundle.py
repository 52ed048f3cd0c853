"""A bundle is read without belief: its parts fit each other, or it is refused with the reason."""

import numpy as np
import pytest

from paddock.bench.bundle import read_bundle
from paddock.errors import InvalidBundle
from tests.bench.bundles import write_bundle


def test_bundle_has_the_episodes_that_were_written(tmp_path):
    bundle = write_bundle(tmp_path / "bundle", [[1.0, 2.0, -0.0, 4.0]])
    assert bundle.complete
    assert [episode.total for episode in bundle.episodes] == [1.0, 2.0, 0.0, 4.0]
    assert [episode.steps for episode in bundle.episodes] == [3] * 4
    assert np.array_equal(bundle.values(0), [1.0, 2.0, 0.0, 4.0])
    assert bundle.digest == read_bundle(tmp_path / "bundle").digest


@pytest.mark.parametrize("file", ["plan.json", "start.json", "episodes.log", "statement.json"])
def test_any_changed_byte_is_noticed(tmp_path, file):
    path = write_bundle(tmp_path / "bundle", [[1.0, 2.0, 3.0, 4.0]]).path / file
    text = path.read_bytes()
    hint = text.find(b"keyid"), text.find(b'"sig"')  # DSSE's own signature leaves this part out
    for at in range(0, len(text), max(1, len(text) // 40)):
        if file == "statement.json" and hint[0] <= at < hint[1]:
            continue
        path.write_bytes(text[:at] + bytes((text[at] ^ 1,)) + text[at + 1 :])
        with pytest.raises(InvalidBundle) as caught:
            read_bundle(path.parent)
        assert caught.value.reason in ("malformed", "tampered", "incomplete"), at


def test_bundle_without_a_statement_is_incomplete(tmp_path):
    bundle = write_bundle(tmp_path / "bundle", [[1.0, 2.0, 3.0, 4.0]])
    (bundle.path / "statement.json").unlink()
    with pytest.raises(InvalidBundle) as caught:
        read_bundle(bundle.path)
    assert caught.value.reason == "incomplete"
    assert not read_bundle(bundle.path, partial=True).complete
