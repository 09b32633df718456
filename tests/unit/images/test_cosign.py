"""What cosign's answers mean. Its texts are those of cosign 2.4; the program itself is in no registry of packages."""

from __future__ import annotations

import subprocess

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import UsageError
from mnrun.images import cosign
from unit.texts import Refused, Says

NAME = "reg:5000/app@sha256:" + "a" * 64
UNSIGNED = "Error: no signatures found\nmain.go:69: error during command execution: no signatures found\n"
GOOD = f"\nVerification for {NAME} --\nThe following checks were performed on each of these signatures:\n"


@pytest.mark.parametrize(
    ("code", "said", "means"),
    [
        (0, GOOD, "valid"),
        (10, UNSIGNED, "no signatures found"),
        (1, "open cosign.pub: permission denied\n\n", "open cosign.pub: permission denied"),
        (137, "", "cosign said nothing"),
    ],
)
def test_an_answer(mocker: MockerFixture, code: int, said: str, means: str) -> None:
    run = mocker.patch("subprocess.run", return_value=subprocess.CompletedProcess((), code, "[{}]", said))
    assert cosign.signature(NAME, "/keys/cosign.pub") == means
    assert run.call_args.args == (("cosign", "verify", "--key", "/keys/cosign.pub", NAME),)


def test_no_answer(mocker: MockerFixture, says: Says) -> None:
    mocker.patch("subprocess.run", side_effect=subprocess.TimeoutExpired("cosign", 60))
    says(cosign.signature(NAME, "k"))


def test_no_cosign(refused: Refused, mocker: MockerFixture) -> None:
    mocker.patch("subprocess.run", side_effect=FileNotFoundError)
    with refused(UsageError):
        cosign.signature(NAME, "k")
