"""What a folder asks for, and installing it: wheels only, by hash where there is a lock, whole or not at all."""

import tarfile

import pytest

from paddock.errors import DependencyNotInstalled, InvalidManifest
from paddock.package.dependencies import find_wanted, install
from tests.package.signed import write_wheel

HASH = f"sha256:{'0' * 64}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """``folder(path=text, ...)``: one with these files; libraries are installed below the test's own folder."""
    monkeypatch.setenv("PADDOCK_CACHE", str(tmp_path / "cache"))

    def write(files):
        for name, text in files.items():
            place = tmp_path / "env" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        return tmp_path / "env"

    return write


def project(*dependencies):
    return {"pyproject.toml": f'[project]\nname = "x"\ndependencies = {list(dependencies)!r}\n'}


def test_what_paddock_stands_for_is_left_out(folder):
    asked = ("openenv[core] @ git+https://a/b", "numpy>=1.2,<3", "fastapi", "uvicorn>=1")
    wanted = find_wanted(folder(project(*asked)))
    assert (wanted.lines, wanted.locked) == (("numpy>=1.2,<3",), False)
    assert wanted.left_out == ("openenv", "fastapi", "uvicorn")


def test_what_openenv_would_bring_is_kept_if_the_code_imports_it(folder):
    code = "import numpy\ntry:\n    import fastmcp.tools\nexcept ImportError:\n    pass\n"
    code += "from fastapi import FastAPI\ndef main():\n    import uvicorn\n"
    wanted = find_wanted(folder({**project("openenv_core", "fastapi>=1"), "server/app.py": code}))
    assert wanted.lines == ("fastapi>=1", "fastmcp")


def test_requirements_are_added(folder):
    files = {**project("a==1"), "server/requirements.txt": "# why\nb ; python_version < '3.9'\nopenenv>=0.2\na==1\n"}
    wanted = find_wanted(folder(files))
    assert wanted.lines == ("a==1", "b ; python_version < '3.9'")
    assert wanted.files == ("pyproject.toml", "server/requirements.txt")


def test_requirements_with_hashes_are_a_lock(folder):
    text = f"a==1 \\\n    --hash={HASH} \\\n    --hash={HASH}\nopenenv==1 --hash={HASH}\n"
    wanted = find_wanted(folder({**project("c"), "requirements.txt": text}))
    assert (wanted.lines, wanted.locked) == ((f"a==1 --hash={HASH} --hash={HASH}",), True)


LOCK = f"""
version = 1
[[package]]
name = "x"
version = "0.1"
source = {{ editable = "." }}
dependencies = [{{ name = "openenv" }}, {{ name = "b", extra = ["more"] }}, {{ name = "w", marker = "os_name=='nt'" }}]
[[package]]
name = "openenv"
version = "0.10.0"
source = {{ registry = "index" }}
dependencies = [{{ name = "gradio" }}, {{ name = "fastmcp" }}]
wheels = [{{ url = "u", hash = "{HASH}" }}]
[[package]]
name = "b"
version = "2"
source = {{ registry = "index" }}
dependencies = [{{ name = "w", marker = "python_version < '3'" }}]
wheels = [{{ url = "u", hash = "{HASH}" }}]
[package.optional-dependencies]
more = [{{ name = "c" }}]
[[package]]
name = "c"
version = "3"
source = {{ registry = "index" }}
dependencies = [{{ name = "b" }}]
wheels = [{{ url = "u", hash = "{HASH}" }}]
[[package]]
name = "w"
version = "4"
source = {{ registry = "index" }}
wheels = [{{ url = "u", hash = "{HASH}" }}]
[[package]]
name = "gradio"
version = "5"
source = {{ registry = "index" }}
sdist = {{ url = "u", hash = "{HASH}" }}
[[package]]
name = "fastmcp"
version = "3"
source = {{ registry = "index" }}
wheels = [{{ url = "u", hash = "{HASH}" }}]
"""


def test_uv_lock_is_followed_from_the_folder(folder):
    wanted = find_wanted(folder({"uv.lock": LOCK, "models.py": "import fastmcp\n"}))
    assert wanted.locked
    assert [line.partition(" --hash")[0] for line in wanted.lines] == [
        "b==2",
        "c==3",
        "fastmcp==3",
        "w==4 ; (os_name=='nt') or (python_version < '3')",
    ]
    assert wanted.left_out == ("openenv",)


@pytest.mark.parametrize("lock", ["", "package = 3\n", LOCK.replace('[{ name = "c" }]', "3"), LOCK[:150] + "]"])
def test_lock_that_uv_did_not_write_is_refused(folder, lock):
    with pytest.raises(InvalidManifest):
        find_wanted(folder({"uv.lock": lock}))


def test_package_without_a_wheel_is_refused(folder):
    with pytest.raises(InvalidManifest, match="gradio==5 has no wheel"):
        find_wanted(folder({"uv.lock": LOCK, "models.py": "import gradio\n"}))


@pytest.mark.parametrize(
    "line",
    [
        "a @ https://b/c.whl",
        "git+https://a/b",
        "./a",
        "-e .",
        "--index-url https://a",
        "-r other.txt",
        "a; x @ y",
        "a; python_version > '3' --index-url=https://a",
        "a; '\x1b[2J' == ''",
        "--pre",
    ],
)
def test_anything_but_a_package_of_the_index_is_refused(folder, line):
    with pytest.raises(InvalidManifest, match="only packages of the index"):
        find_wanted(folder({"requirements.txt": f"{line}\n"}))


def test_lock_with_a_line_without_a_hash_is_refused(folder):
    with pytest.raises(InvalidManifest, match="has no hash"):
        find_wanted(folder({"requirements.txt": f"a==1 --hash={HASH}\nb==2\n"}))


def test_place_depends_on_what_is_asked(folder):
    first = find_wanted(folder(project("a==1"))).place
    assert find_wanted(folder(project("a==1"))).place == first
    assert find_wanted(folder(project("a==2"))).place != first


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder of packages instead of an index; pip looks nowhere else. Returns the hash of the wheel of ``tiny``.

    ``built`` has no wheel, and ``sly`` needs it by its URL; building it leaves a file ``ran``.
    """
    place = tmp_path / "index"
    place.mkdir()
    source = tmp_path / "built-1.0"
    source.mkdir()
    system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (source / "pyproject.toml").write_text(f'{system}[project]\nname = "built"\nversion = "1.0"\n')
    (source / "backend.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with tarfile.open(place / "built-1.0.tar.gz", "w:gz") as file:
        file.add(source, source.name)
    write_wheel(place, "sly", f"Requires-Dist: built @ {(place / 'built-1.0.tar.gz').as_uri()}\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(place))
    return write_wheel(place, "tiny")


@pytest.mark.process
def test_install(folder, index):
    wanted = find_wanted(folder(project("tiny>=1")))
    place = install(wanted)
    assert (place / "tiny.py").is_file()
    assert install(wanted) == place  # already there
    assert [one.name for one in place.parent.iterdir()] == [place.name]


@pytest.mark.process
def test_install_by_hash(folder, index):
    place = install(find_wanted(folder({"requirements.txt": f"tiny==1.0 --hash=sha256:{index}\n"})))
    assert (place / "tiny.py").is_file()


@pytest.mark.process
@pytest.mark.parametrize("line", [f"tiny==1.0 --hash={HASH}", "built", "sly", "nowhere"], ids=lambda line: line[:6])
def test_failed_install_builds_and_leaves_nothing(folder, index, tmp_path, line):
    wanted = find_wanted(folder({"requirements.txt": f"{line}\n"}))
    with pytest.raises(DependencyNotInstalled, match="requirements.txt"):
        install(wanted)
    assert list(wanted.place.parent.iterdir()) == []
    assert not (tmp_path / "ran").exists()


def declared(*lines, lock=None):
    head = '[package]\nname = "m"\nversion = "1"\n[[env]]\nid = "M-v0"\nentry = "m:M"\n[dependencies]\n'
    files = {"paddock.toml": head + "\n".join(lines), "m.py": ""}
    return files if lock is None else {**files, "lock/requirements.txt": lock}


def test_a_manifests_dependencies_are_installed_by_its_lock_if_it_has_one(folder):
    assert find_wanted(folder(declared('a = ">=1"'))).lines == ("a>=1",)
    wanted = find_wanted(folder(declared('a = ">=1"', lock=f"b==2 --hash={HASH}\na==1.5 \\\n  --hash={HASH}\n")))
    assert (wanted.lines, wanted.locked) == ((f"b==2 --hash={HASH}", f"a==1.5 --hash={HASH}"), True)


@pytest.mark.parametrize(
    ("lock", "words"),
    [
        (f"b==2 --hash={HASH}\n", "does not lock a>=1"),
        ("a==1\n", "has no hash"),
        (f"a>=1 --hash={HASH}\n", "is not pinned"),
        (f"a==1.* --hash={HASH}\n", "is not pinned"),
        (f"a @ https://example.com/a.whl --hash={HASH}\n", "only packages of the index"),
    ],
)
def test_a_lock_pins_everything_by_hash(folder, lock, words):
    with pytest.raises(InvalidManifest, match=words):
        find_wanted(folder(declared('a = ">=1"', lock=lock)))
