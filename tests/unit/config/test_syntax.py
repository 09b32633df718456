"""Values that Slurm cannot read are refused with the format, and all others pass."""

from __future__ import annotations

import pytest

from mnrun.config import layers, syntax
from mnrun.config.options import BY_NAME
from mnrun.errors import UsageError

RIGHT = {
    "time": ["30", "0", "1:30", "12:00:00", "2-0", "1-12:30", "2-", "1-02:03:04", "UNLIMITED", "infinite", "-1"],
    "mem": ["0", "4000", "64G", "64g", "64GB", "1T", "100KB"],
    "mem_per_cpu": ["4G"],
    "mem_per_gpu": ["32G"],
    "array": ["1", "0-9", "0-99%5", "1,3,7", "0-15:4", "[1-5]", "1, 3-5,8%2", "[1-5%2]"],
    "dependency": [
        "singleton",
        "afterok:1",
        "afterok:1:2,afterany:3",
        "after:1+5?afternotok:2",
        "aftercorr:12_*",
        "123",
    ],
}
WRONG = {
    "time": ["1h", "abc", "1:2:3:4", "12h00", "1.5"],
    "mem": ["lots", "64 G", "4,5G", "G", "-1", "1.5G", "10P", "1GiB"],
    "mem_per_cpu": ["some"],
    "mem_per_gpu": ["8X"],
    "array": ["a", "1-", "0..9", "1;2", "1-3-5"],
    "dependency": ["afterok:", "afterok", "ok:1", "afterok:$first", "afterok:1;afterok:2"],
}


@pytest.mark.parametrize(("option", "value"), [(name, value) for name, values in RIGHT.items() for value in values])
def test_a_right_value_passes(option: str, value: str) -> None:
    """sbatch has the last word on it."""
    assert layers.parse(BY_NAME[option], value, "here") == value


@pytest.mark.parametrize(("option", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_value_is_refused(option: str, value: str) -> None:
    """With the option, the value, its origin and the format."""
    with pytest.raises(UsageError) as refused:
        layers.parse(BY_NAME[option], value, "job.toml line 3")
    form = syntax.FORMATS[option]
    flag = f"--{option.replace('_', '-')}"
    assert refused.value.message == f"{flag} {value!r} is not {form.name} (job.toml line 3)"
    assert refused.value.remedy == f"write {form.sample}, {form.others}"


@pytest.mark.parametrize("option", syntax.FORMATS)
def test_the_samples_are_right(option: str) -> None:
    """A first job file has them. An empty value takes back that of a layer below."""
    for value in (syntax.FORMATS[option].sample, ""):
        assert layers.parse(BY_NAME[option], value, "here") == value


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("comment=test", "comment=test"),
        ("--switches=1@30:00", "switches=1@30:00"),
        ("!--hold", "!hold"),
        ("x11", "x11"),
    ],
)
def test_leading_dashes_of_slurms_words_are_taken_off(word: str, found: str) -> None:
    """The script writes them itself."""
    assert layers.parse(BY_NAME["slurm"], [word], "here") == (found,)


@pytest.mark.parametrize("word", ["-N4", "N4", "", "-", "--", "a b", "=x", "Hold"])
def test_what_is_no_long_option_is_refused(word: str) -> None:
    """A short option, or nothing at all."""
    with pytest.raises(UsageError, match="is not a long option of sbatch"):
        layers.parse(BY_NAME["slurm"], [word], "here")
