"""OpenEnv's tools for environments: a client of a Gitea server, and an executor of Python code.

Code runs in a workspace, never in the process that asks for it. The client runs ``git``, with a configuration of its
own: the user's is left alone.
"""

from __future__ import annotations

import atexit
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from paddock.agentic.envs.coding.workspace import run_program
from paddock.openenv.types import CodeExecResult

ANSWER_BYTES = 4 << 20


class PyExecutor:
    """Runs code in a workspace behind the wall: no network, no files of yours, the standard library, 10 seconds.

    OpenEnv's keeps variables from one run to the next and adds the value of the last expression to the output; here
    each run is a program of its own. ``additional_imports`` is for names of the standard library, which need no leave.
    """

    def __init__(self, additional_imports: list[str] | None = None) -> None:
        self.additional_imports = list(additional_imports or ())

    def run(self, code: str) -> CodeExecResult:
        """Run the code. What the program did wrong is in the result; a missing wall is an EpisodeFailed."""
        ran = run_program(code)
        exit_code = 1 if ran.exit_code is None else ran.exit_code
        why = "" if ran.ended == "exit" else f"[ended by: {ran.ended}]\n"
        return CodeExecResult(stdout=ran.stdout, stderr=ran.stderr + why, exit_code=exit_code)


@dataclass
class RepoInfo:
    """A repository of a Gitea server."""

    name: str
    url: str
    commit: str
    clone_url: str


class GitServerClient:
    """Clones repositories of a Gitea server into a folder, and puts them back to a commit between episodes."""

    def __init__(self, gitea_url: str, username: str, password: str, workspace_dir: str = "/workspace") -> None:
        self.gitea_url = gitea_url.rstrip("/")
        self.username, self.password = username, password
        self.workspace_dir = Path(workspace_dir)
        self.is_ready = False
        parts = urlsplit(self.gitea_url)
        self.domain, self.port = parts.hostname or "localhost", parts.port or 3000
        self.workspace_dir.mkdir(parents=True, exist_ok=True)
        self._configure_git(parts.scheme or "http")

    def _configure_git(self, scheme: str) -> None:
        folder = Path(tempfile.mkdtemp(prefix="paddock-git-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        secret, config = folder / "git-credentials", folder / "gitconfig"
        secret.touch(mode=0o600)
        who = f"{quote(self.username, safe='')}:{quote(self.password, safe='')}"
        secret.write_text(f"{scheme}://{who}@{self.domain}:{self.port}\n")
        config.touch()
        self._git_env = {**os.environ, "GIT_CONFIG_GLOBAL": str(config), "GIT_TERMINAL_PROMPT": "0"}
        for name, value in {
            "user.name": self.username,
            "user.email": f"{self.username}@local.env",
            "init.defaultBranch": "main",
            "credential.helper": f"store --file {shlex.quote(str(secret))}",
        }.items():
            self._git("config", "--file", str(config), name, value, check="Configuring git failed")

    def wait_for_ready(self, timeout: int = 30) -> bool:
        """Ask the server each second until it answers."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            try:
                with urlopen(f"{self.gitea_url}/", timeout=5):  # noqa: S310 - the caller's own server
                    self.is_ready = True
                    return True
            except (URLError, OSError, ValueError):
                time.sleep(1)
        return False

    def list_repositories(self) -> list[dict[str, str]]:
        """Return name, full_name, clone_url and description of each; an empty list if the answer is not one."""
        self._require_ready()
        who = b64encode(f"{self.username}:{self.password}".encode()).decode()
        request = Request(f"{self.gitea_url}/api/v1/user/repos", headers={"Authorization": f"Basic {who}"})  # noqa: S310
        try:
            with urlopen(request, timeout=30) as answer:  # noqa: S310
                repositories = json.loads(answer.read(ANSWER_BYTES))
            keys = ("name", "full_name", "clone_url")
            return [
                {**{key: one[key] for key in keys}, "description": one.get("description", "")} for one in repositories
            ]
        except (URLError, OSError, ValueError, KeyError, TypeError, AttributeError):
            return []

    def clone_to_workspace(self, repo_name: str, target_dir: str | None = None, commit: str = "main") -> str:
        """Clone it afresh, and return the folder."""
        self._require_ready()
        folder = self._folder(target_dir or repo_name)
        if folder.exists():
            shutil.rmtree(folder)
        url = f"{self.gitea_url}/{self.username}/{repo_name}.git"
        self._git("clone", "--", url, str(folder), check="Clone failed")
        if commit != "main":
            self._git("checkout", commit, cwd=folder, check="Checkout failed")
        return str(folder)

    def reset_workspace(self, repo_name: str, commit: str = "main") -> bool:
        """Put a clone back to the commit, without files of anyone else."""
        folder = self._folder(repo_name)
        if not folder.exists():
            raise RuntimeError(f"Repository not found in workspace: {repo_name}")
        self._git("fetch", "--all", cwd=folder)
        self._git("checkout", "--force", commit, cwd=folder, check="Checkout failed")
        if commit == "main" or self._git("reset", "--hard", f"origin/{commit}", cwd=folder)[0]:
            self._git("reset", "--hard", commit, cwd=folder, check="Reset failed")
        self._git("clean", "-fdx", cwd=folder)
        return True

    def execute_git_command(self, command: str, working_dir: str = "") -> tuple[int, str, str]:
        """Run ``git`` with these words, and return exit code, output and errors."""
        folder = self._folder(working_dir)
        if not folder.exists():
            return 1, "", f"Working directory does not exist: {folder}"
        return self._git(*shlex.split(command), cwd=folder)

    def get_current_commit(self, repo_name: str) -> str:
        folder = self._folder(repo_name)
        if not folder.exists():
            raise RuntimeError(f"Repository not found: {repo_name}")
        return self._git("rev-parse", "HEAD", cwd=folder, check="Failed to get commit")[1].strip()

    def workspace_exists(self, repo_name: str) -> bool:
        return self._folder(repo_name).exists()

    def _require_ready(self) -> None:
        if not self.is_ready:
            raise RuntimeError("Gitea server is not ready. Call wait_for_ready() first.")

    def _folder(self, name: str) -> Path:
        folder = (self.workspace_dir / name).resolve()
        if not folder.is_relative_to(self.workspace_dir.resolve()):
            raise ValueError(f"{name!r} leads out of the workspace {str(self.workspace_dir)!r}.")
        return folder

    def _git(self, *words: str, cwd: Path | None = None, check: str = "") -> tuple[int, str, str]:
        command = [shutil.which("git") or "git", *words]
        done = subprocess.run(command, cwd=cwd, env=self._git_env, capture_output=True, text=True, check=False)  # noqa: S603
        if check and done.returncode:
            raise RuntimeError(f"{check}: {done.stderr}")
        return done.returncode, done.stdout, done.stderr
