"""A git repository that is read: no worktree is added, no index, ref or file of it changes.

What git or its filters fetch on their own, as in a partial clone or for LFS, they keep where they always do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from harness.errors import HeadbenchError, UsageError, shown

LONGEST = 300


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository by the top folder of its working tree."""

    top: Path

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """The repository whose working tree holds this folder.

        Raises:
            UsageError: there is none, or git is not installed or refuses it; the message is git's.
        """
        done = _git(folder, "rev-parse", "--show-toplevel")
        if done.returncode:
            raise UsageError(
                f"git finds no working tree around {folder} ({_in_one_line(done.stderr)}): change into the checkout"
            )
        return cls(Path(os.fsdecode(done.stdout.rstrip(b"\n"))))

    def commit_of(self, ref: str) -> str:
        """The full hash of the commit that a branch, tag, hash or expression names.

        Raises:
            UsageError: it names none, or several; the message tells the nearest names, or what would do.
        """
        asked = ("-c", "core.warnAmbiguousRefs=true", "rev-parse", "--verify", "--end-of-options")
        done = _git(self.top, *asked, f"{ref}^{{commit}}", variables={"LC_ALL": "C"})
        if b"is ambiguous" in done.stderr:
            raise UsageError(
                f"git ref {shown(ref)} is ambiguous: say which, as in heads/{ref} or tags/{ref}, or more of its hash"
            )
        if done.returncode == 0:
            return done.stdout.decode().strip()
        if self._ask("rev-parse", "--is-shallow-repository") == b"true\n":
            raise UsageError(
                f"git ref {shown(ref)} is unknown in this shallow clone: git fetch it, or in a CI check out with "
                f"fetch-depth: 0"
            )
        names = self._ask("for-each-ref", "--format=%(refname:short)").decode(errors="replace").split()
        near = " or ".join(get_close_matches(ref, names, n=3, cutoff=0.5))
        way_out = f"did you mean {near}?" if near else "`git branch --all` and `git tag` list what there is"
        raise UsageError(f"git ref {shown(ref)} is unknown: {way_out}")

    def head(self) -> str | None:
        """The hash of the commit that is checked out; None before the first."""
        done = _git(self.top, "rev-parse", "--verify", "--quiet", "HEAD")
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def is_clean(self) -> bool:
        """Whether the working tree is its commit: nothing changed, nothing untracked, ignored files apart."""
        return not self._ask("status", "--porcelain")

    def export(self, commit: str, folder: Path, index: Path) -> None:
        """Write the commit's whole tree into a folder; `index` is a path for git's list of it, used on the way.

        Not `git archive`, which leaves out what .gitattributes says no release should hold, such as tests.

        Raises:
            HeadbenchError: git refuses, or the disk is full; the message is git's.
        """
        own_index = {"GIT_INDEX_FILE": str(index)}
        try:
            self._ask("read-tree", commit, variables=own_index)
            self._ask("checkout-index", "--all", f"--prefix={folder}/", variables=own_index)
        except HeadbenchError as error:
            raise HeadbenchError(
                f"{error}: is there room in {folder}? TMPDIR names another folder"
            ) from error

    def copy_working_tree(self, folder: Path) -> None:
        """Copy the working tree into a folder: every file that git tracks or would add, as it is now."""
        listed = self._ask("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        for name in dict.fromkeys(os.fsdecode(one) for one in listed.split(b"\0") if one):
            source, copy = self.top / name, folder / name
            if not (source.is_symlink() or source.is_file()):
                continue  # deleted, or a repository inside this one
            copy.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # an editor's temporary file, gone since
                shutil.copy2(source, copy, follow_symlinks=False)

    def _ask(self, *arguments: str, variables: dict[str, str] | None = None) -> bytes:
        done = _git(self.top, *arguments, variables=variables)
        if done.returncode:
            raise HeadbenchError(f"git {arguments[0]} fails in {self.top}: {_in_one_line(done.stderr)}")
        return done.stdout


def _git(
    folder: Path, *arguments: str, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run git; it takes no lock that it can do without, so that a commit made meanwhile is not disturbed."""
    try:
        return subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *arguments],
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise UsageError(
            f"git cannot be run ({error.strerror}): install it, or put it on the PATH"
        ) from error


def _in_one_line(said: bytes) -> str:
    """All of it: git tells the fault first and the way out last, as of a folder that another user owns."""
    return " ".join(said.decode(errors="replace").split())[:LONGEST] or "it says nothing"
