"""Each statement of docs/security.md has its tests here. A new one has none yet, and fails.

A row of a table, an item of a list and a paragraph are statements. The key is how one begins, below its heading. A text
in the place of tests is the reason why there are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs/security.md"
TOLD = "it promises nothing: it tells what others or the user can do"
WORD = "it explains a word or names a place"

Tests = tuple[str, ...]
REACH = ("test_evil_image::test_what_an_image_reaches",)
# heading -> the beginning of each statement -> its tests, as FILE::FUNCTION. A file without a folder is in tests/live.
PROMISES: Mapping[str, Mapping[str, Tests | str]] = {
    "Security": {
        "mnrun gives nobody rights.": (
            "test_stranger_sees::test_stranger_cannot_log_in",
            "test_exec::test_exec_enters_the_container_of_a_rank",
        ),
        "The tests use two real users": WORD,
    },
    "Trust": {
        "root, Slurm and its plugins": TOLD,
        "the site's files": ("test_jobfile::test_what_is_not_the_sites_is_ignored",),
        "your own files and variables": TOLD,
        "your image cache": (
            "test_promises::test_a_place_that_others_may_write_to",
            "test_promises::test_these_traps_are_some",
            "test_stranger_images::test_stranger_has_filled_the_cache_of_a_node",
            "test_stranger_images::test_stranger_takes_the_name_of_a_pull",
        ),
        "your copies of `--stage`": (
            "test_promises::test_a_place_that_others_may_write_to",
            "test_promises::test_these_traps_are_some",
            "unit/wrappers/test_stage::test_a_copy_that_differs",
            "unit/wrappers/test_stage::test_a_directory_that_others_could_change",
        ),
        "your TMPDIR": (
            "test_promises::test_a_place_that_others_may_write_to",
            "test_stranger_images::test_stranger_may_write_where_an_image_is_made",
            "unit/images/test_build::test_an_image_where_others_may_write",
            "unit/images/test_build::test_a_workshop_of_others",
        ),
        "owners of the directories above": TOLD,
        '"Others" are all users': (
            "test_stranger_images::test_a_group_of_ones_own_is_nobody_else",
            "test_stranger_places::test_records_where_only_a_group_of_ones_own_may_write",
            "unit/system/test_paths::test_a_group_is_others_unless_it_is_the_users_own",
            "unit/wrappers/test_exposed::test_the_directories_behind_a_link_count",
        ),
    },
    "The author of an image": {
        "Each process of a container runs as you.": (
            "test_runtimes::test_runtime_docker_gives_no_image_the_nodes_root",
            "test_runtimes::test_runtime_starts_every_rank_as_it_should",
            "test_exec::test_exec_enters_the_container_of_a_rank",
            "test_exec::test_exec_enters_the_container_of_each_runtime",
        ),
        "all | read and write your home": TOLD,
        "all, outside-in; Apptainer's": TOLD,
        "Docker | the same.": TOLD,
        "Podman inside-out": TOLD,
        "With `--no-home --mode inside-out`": (
            "test_hostile_user::test_hostile_home_is_not_needed",
            "test_neighbours::test_neighbours_are_out_of_sight_inside_out",
        ),
    },
    "Options that keep something from an image": {
        "none, Apptainer": REACH,
        "`--no-home`, Apptainer": REACH,
        "`--no-home --container-args --contain`": REACH,
        "none, Charliecloud": REACH,
        "`--no-home`, Charliecloud": REACH,
        "`--no-home --container-args --private-tmp`": REACH,
        "none, Docker": REACH,
        "`--no-home`, Docker": REACH,
        "`--no-home --hardened`": REACH,
        "A program that reaches the node's side": (
            "test_evil_image::test_an_evil_image",
            "test_evil_image::test_an_evil_image_whose_job_is_killed",
        ),
        "Programs of a container that sees": TOLD,
    },
    "Looking at files of other people": {
        "`mnrun submit --dry-run`": (
            "test_looking::test_a_dry_run_runs_nothing_of_a_job_file",
            "test_looking::test_an_image_that_is_looked_at",
        ),
        "`mnrun plan`": (
            "test_looking::test_a_dry_run_runs_nothing_of_a_job_file",
            "test_promises::test_these_traps_are_some",
        ),
        "`mnrun image inspect`": ("test_looking::test_an_image_that_is_looked_at",),
        "`mnrun image verify`": ("test_looking::test_an_image_that_is_looked_at",),
        "`mnrun image build`": TOLD,
    },
    "Visible to another user": {
        "Command lines are public.": ("test_stranger_sees::test_stranger_sees_words_and_no_values",),
        "Values of variables are private": (
            "test_stranger_sees::test_stranger_sees_words_and_no_values",
            "test_neighbours::test_neighbours_cannot_look_in",
            "test_hosts::test_hosts_see_no_secret_in_any_command_line",
            "test_life::test_no_secret_is_said_or_left",
        ),
        "A batch script holds": ("test_stranger_sees::test_stranger_sees_words_and_no_values",),
        "The job's directories": (
            "test_stranger_sees::test_stranger_sees_words_and_no_values",
            "test_hostile_user::test_hostile_umask",
        ),
        "Anybody can connect to a port.": ("test_stranger_sees::test_stranger_cannot_log_in",),
        "mnrun does not protect the ports": ("test_stranger::test_stranger_cannot_foretell_ports",),
        "Users of Docker's group": TOLD,
        "`mnrun exec` enters only": (
            "test_exec::test_exec_refuses_a_strangers_job",
            "test_stranger_places::test_stranger_foretells_the_records",
            "unit/wrappers/test_into::test_a_directory_of_somebody_else_is_refused",
        ),
    },
    "Protected against another user": {
        "Anybody can make a name in `/tmp`.": (
            "test_stranger::test_stranger_makes_the_directory_first",
            "test_stranger::test_stranger_leads_to_a_directory_of_hers",
            "test_stranger::test_stranger_leads_to_another_job_of_hers",
            "test_stranger::test_stranger_takes_the_name_after_the_end",
            "test_stranger::test_stranger_takes_the_name_before_the_last_step",
            "unit/wrappers/test_into::test_what_is_not_the_jobs_directory_is_refused",
        ),
        "Records of jobs may lie": (
            "test_stranger_places::test_stranger_foretells_the_records",
            "test_promises::test_a_place_that_others_may_write_to",
        ),
        "mnrun does not run, read, follow": (
            "test_promises::test_a_place_that_others_may_write_to",
            "test_stranger_sees::test_stranger_finds_what_was_slain",
            "test_stranger::test_stranger_has_a_daemon_of_mps",
            "test_stranger::test_stranger_has_a_name_like_a_line",
            "test_stranger::test_stranger_has_a_comma_in_a_name",
            "test_stranger::test_stranger_waits_at_the_door",
            "test_api::test_a_job_from_python",
        ),
        "What mnrun starts on a node": ("test_stranger_places::test_stranger_is_in_no_working_directory",),
    },
    "The job's sshd, ports and keys": {
        "The default way between nodes": ("test_pipe::test_pipe_without_sshd_key_or_port",),
        "With `--connect ssh` or pdsh": ("test_stranger_sees::test_stranger_cannot_log_in",),
        "Only the job's own key": ("test_stranger_sees::test_stranger_cannot_log_in",),
        "At most 100 connections": ("test_stranger_sees::test_stranger_floods_the_sshd",),
        "Passwords, TCP forwarding": ("test_stranger_sees::test_stranger_cannot_log_in",),
        "Keys are made for one launch.": (
            "test_stranger_sees::test_stranger_finds_no_key_afterwards",
            "unit/system/test_keys::test_no_job_has_anothers_keys",
        ),
        "Host keys are the job's own": (
            "test_hostile_user::test_hostile_home_is_not_touched",
            "unit/connect/test_connect::test_ssh_config_whole",
        ),
    },
    "Left on the nodes": {
        "normal end, failing rank": (
            "test_ends::test_end_from_outside",
            "test_ends::test_end_by_the_time_limit",
            "test_ends::test_end_by_ctrl_c",
            "test_stranger_sees::test_stranger_finds_no_key_afterwards",
        ),
        "`kill -9` of mnrun": (
            "test_ends::test_end_from_outside",
            "test_stranger_sees::test_stranger_finds_no_key_afterwards",
        ),
        "a guard alone is killed": ("test_stranger::test_stranger_takes_the_name_after_the_end",),
        "every process at once": ("test_stranger_sees::test_stranger_finds_what_was_slain",),
        "a node loses its power": ("test_ends::test_end_of_a_node_that_is_started_anew",),
        "`--keep`": ("test_ends::test_end_of_a_run_that_is_kept",),
        "The directories of a killed job": (
            "test_stranger_sees::test_stranger_finds_what_was_slain",
            "test_ends::test_end_of_a_node_that_is_started_anew",
        ),
        "[Lease and guard]": WORD,
    },
    "Possible for another user": {
        "Another user can make the name": ("test_stranger::test_stranger_makes_the_directory_first",),
        "The same holds for": (
            "test_stranger::test_stranger_makes_the_shared_memory_first",
            "test_stranger::test_stranger_taps_the_lease",
            "test_stranger::test_stranger_waits_at_the_door",
            "test_promises::test_a_place_that_others_may_write_to",
        ),
        "The name of the directory for `--stage`": ("test_hostile_user::test_hostile_cache_of_somebody_else",),
        "Apptainer names a container": ("test_stranger::test_stranger_takes_the_names_of_shared_containers",),
        "A full `/tmp`": TOLD,
        "With `--connect ssh` or pdsh, a flood": ("test_stranger_sees::test_stranger_floods_the_sshd",),
        "To report a weakness": WORD,
    },
}


def statements(text: str) -> Iterator[tuple[str, str]]:
    """Yield each statement with its heading, on one line and without the signs of its form."""
    heading = ""
    for block in re.split(r"\n{2,}", text):
        lines = block.strip().splitlines()
        if lines and lines[0].startswith("#"):
            heading = lines.pop(0).lstrip("# ")
        if lines and lines[0].startswith("|"):
            yield from ((heading, line.strip("| ")) for line in lines[2:])
        elif lines:
            items = re.split(r"(?:\A|\n)- ", "\n".join(lines))
            yield from ((heading, " ".join(item.split())) for item in items if item)


def row(heading: str, statement: str) -> list[str]:
    return [begin for begin in PROMISES.get(heading, {}) if statement.startswith(begin)]


FOUND = list(statements(PAGE.read_text(encoding="utf-8")))


@pytest.mark.parametrize(("heading", "statement"), FOUND, ids=[text[:40] for _, text in FOUND])
def test_a_statement_has_one_row(heading: str, statement: str) -> None:
    assert len(row(heading, statement)) == 1, f"name the tests of this statement: {statement}"


def test_each_row_is_a_statement() -> None:
    rows = [(heading, begin) for heading, table in PROMISES.items() for begin in table]
    assert sorted(rows) == sorted((heading, begin) for heading, text in FOUND for begin in row(heading, text))


def test_each_test_is_there() -> None:
    rows = [tests for table in PROMISES.values() for tests in table.values() if isinstance(tests, tuple)]
    named = {name for tests in rows for name in tests}
    lost = []
    for name in sorted(named):
        file, _, function = name.partition("::")
        path = TESTS / (f"{file}.py" if "/" in file else f"live/{file}.py")
        if not path.is_file() or f"\ndef {function}(" not in path.read_text(encoding="utf-8"):
            lost.append(name)
    assert lost == []


def test_a_new_statement_would_be_noticed() -> None:
    """The page is split into what it says."""
    text = (
        "## Trust\n\n| a | b |\n|---|---|\n| row | why |\n\nA paragraph\nof two.\n\n- An item\n  of two.\n- Another.\n"
    )
    assert list(statements(text)) == [
        ("Trust", "row | why"),
        ("Trust", "A paragraph of two."),
        ("Trust", "An item of two."),
        ("Trust", "Another."),
    ]
    assert row("Trust", "A paragraph of two.") == []
