"""A git repository is read exactly, and nothing in it changes: no worktree, no index, no ref, no file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from harness.errors import HeadbenchError, UsageError
from harness.repository import Repository

from .scripted_trees import commit_all, git, repository, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checkout(tmp_path) -> Path:
    return repository(
        tmp_path / "checkout",
        {
            "a.py": "a\n",
            "deep/b.py": "b\n",
            ".gitignore": "ignored\n",
            ".gitattributes": "deep export-ignore\n",
        },
    )


def files_in(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }


def inside_git(checkout: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (checkout / ".git").rglob("*") if path.is_file()}


def test_an_export_is_the_whole_commit_also_what_no_release_holds_and_the_repository_stays_as_it_was(
    tmp_path, checkout
):
    committed = git(checkout, "rev-parse", "HEAD").strip()
    was = files_in(checkout)
    write(checkout, {"a.py": "changed\n", "new.py": "new\n"})
    git(checkout, "add", "a.py")
    before = inside_git(checkout)
    Repository.around(checkout).export(committed, tmp_path / "copy", tmp_path / "index")
    assert files_in(tmp_path / "copy") == was
    assert inside_git(checkout) == before
    assert not (tmp_path / "copy" / ".git").exists()


def test_a_copy_of_the_working_tree_has_changes_and_new_files_but_nothing_deleted_or_ignored(
    tmp_path, checkout
):
    write(checkout, {"a.py": "changed\n", "new file é.py": "new\n", "ignored": "x", "ignored_not": "y"})
    (checkout / "deep" / "b.py").unlink()
    (checkout / "link.py").symlink_to("a.py")
    (checkout / "nowhere").symlink_to("/nowhere/at/all")
    repository(checkout / "inner", {"c.py": "another repository's\n"})
    copy = tmp_path / "copy"
    Repository.around(checkout).copy_working_tree(copy)
    assert files_in(copy) == {
        ".gitignore": "ignored\n", ".gitattributes": "deep export-ignore\n", "a.py": "changed\n",
        "new file é.py": "new\n", "ignored_not": "y", "link.py": "changed\n",
    }  # fmt: skip
    assert (copy / "link.py").is_symlink()
    assert (copy / "nowhere").is_symlink()


def test_the_whole_tree_is_meant_also_from_a_folder_inside_it(tmp_path, checkout):
    inside = Repository.around(checkout / "deep")
    assert inside == Repository.around(checkout)
    inside.copy_working_tree(tmp_path / "copy")
    assert (tmp_path / "copy" / "a.py").exists()


def test_clean_means_that_nothing_differs_from_the_commit(checkout):
    one = Repository.around(checkout)
    assert one.is_clean()
    write(checkout, {"ignored": "x"})
    assert one.is_clean()
    write(checkout, {"untracked": "x"})
    assert not one.is_clean()


def test_every_way_to_name_a_commit_leads_to_it(checkout):
    first = git(checkout, "rev-parse", "HEAD").strip()
    git(checkout, "tag", "--annotate", "--message", "one", "v1")
    write(checkout, {"a.py": "second\n"})
    second = commit_all(checkout)
    one = Repository.around(checkout)
    assert [one.commit_of(name) for name in ("v1", "main~1", first, first[:9])] == [first] * 4
    assert [one.commit_of(name) for name in ("main", "HEAD", "@")] == [second] * 3
    assert one.head() == second


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("mian", ("'mian' is unknown", "did you mean main?")),
        ("zzz", ("'zzz' is unknown", "git branch --all")),
        ("--all", ("'--all' is unknown",)),
        ("HEAD:a.py", ("'HEAD:a.py' is unknown",)),
        ("", ("'' is unknown",)),
        ("v" * 300, ("…",)),
    ],
)
def test_a_ref_that_is_no_commit_is_refused_with_the_way_out(checkout, ref, words):
    with pytest.raises(UsageError) as refused:
        Repository.around(checkout).commit_of(ref)
    for word in words:
        assert word in str(refused.value)


def test_a_ref_that_names_a_branch_and_a_tag_is_refused(checkout):
    first = git(checkout, "rev-parse", "HEAD").strip()
    git(checkout, "tag", "main")
    git(checkout, "config", "core.warnAmbiguousRefs", "false")
    write(checkout, {"a.py": "second\n"})
    second = commit_all(checkout)
    one = Repository.around(checkout)
    for name in ("main", "main~0"):
        with pytest.raises(UsageError, match=r"is ambiguous: say which, as in heads/main"):
            one.commit_of(name)
    assert [one.commit_of(name) for name in ("tags/main", "heads/main")] == [first, second]


def test_a_hash_too_short_to_be_one_commit_s_is_refused_as_such(checkout):
    write(checkout, {f"{number}.txt": str(number) for number in range(1500)})
    commit_all(checkout)
    hashes = git(checkout, "rev-list", "--all", "--objects").split("\n")
    starts = [line[:4] for line in hashes if line]
    twice = next(start for start in starts if starts.count(start) > 1 and not start.isdigit())
    with pytest.raises(UsageError, match=f"'{twice}' is ambiguous"):
        Repository.around(checkout).commit_of(twice)


def test_a_ref_missing_from_a_shallow_clone_is_told_to_be_fetched(tmp_path, checkout):
    write(checkout, {"a.py": "second\n"})
    commit_all(checkout)
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{checkout}", "shallow")
    with pytest.raises(UsageError, match="fetch-depth: 0"):
        Repository.around(tmp_path / "shallow").commit_of("main~1")


def test_a_repository_without_a_commit_has_no_head(tmp_path):
    git(tmp_path, "init", "--quiet")
    assert Repository.around(tmp_path).head() is None


def test_no_repository_and_no_git_are_told_apart(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"no working tree around .*: change into the checkout"):
        Repository.around(tmp_path)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(UsageError, match=r"git cannot be run \(No such file or directory\): install it"):
        Repository.around(tmp_path)


def test_a_git_that_cannot_be_run_is_as_good_as_none(tmp_path, monkeypatch):
    (tmp_path / "git").write_text("no program\n")
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    for mode, why in ((0o644, "Permission denied"), (0o755, "Exec format error")):
        (tmp_path / "git").chmod(mode)
        with pytest.raises(UsageError, match=rf"git cannot be run \({why}\): install it"):
            Repository.around(tmp_path)


def test_an_export_that_the_disk_refuses_is_no_wrong_usage(checkout, tmp_path):
    one = Repository.around(checkout)
    (tmp_path / "taken").write_text("a file where the folder should go")
    with pytest.raises(HeadbenchError, match="git checkout-index fails in") as refused:
        one.export(one.commit_of("HEAD"), tmp_path / "taken", tmp_path / "index")
    assert refused.value.exit_code == 1


def test_what_git_refuses_is_told_with_the_way_out_that_git_knows(checkout, monkeypatch):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UsageError, match=r"dubious ownership .* safe\.directory"):
        Repository.around(checkout)
