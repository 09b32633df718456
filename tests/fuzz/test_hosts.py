"""Lists of hosts, hostfiles and known_hosts."""

from __future__ import annotations

import base64
import hmac

from hypothesis import strategies as st

from mnrun import nodeset
from mnrun.schedulers.hosts import known_hosts, names

from .cases import answer, cases
from .texts import HOST, TEXT, lines, texts

LISTS = (
    *("node[01-04,7],gpu3", "a1,b2,c3", "rack[1-2]n[01-03]", "node[1-9/2]", "x[0-999999999]", "n1!n2", "@all"),
    "n[1-3]-ib",
)
HOSTS = ("node[01-04]", "ws1:2,ws2:1", "ws1", "ws[1-3]:4,ws2", "ws1:0", "user@ws1")
FILE = ("ws1 slots=2", "ws2:4", "ws3", "# none", "ws[4-6] slots=1 max_slots=2", "ws1 max-slots=9", "ws7:x")
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIJx1"


@cases(hosts=st.lists(HOST, min_size=1, max_size=30, unique=True))
def test_names_of_nodes_come_back_from_their_list(hosts: list[str]) -> None:
    assert sorted(nodeset.expand(nodeset.fold(hosts))) == sorted(hosts)
    assert nodeset.expand(",".join(hosts)) == tuple(hosts)


@cases(first=st.integers(0, 20), count=st.integers(1, 40), width=st.integers(1, 6), end=st.sampled_from(["", "-ib"]))
def test_a_range_means_its_numbers(first: int, count: int, width: int, end: str) -> None:
    numbers = [f"{number:0{width}}" for number in range(first, first + count)]
    expected = tuple(f"n{number}{end}" for number in numbers)
    if len({len(number) for number in numbers}) == 1:
        assert nodeset.expand(f"n[{numbers[0]}-{numbers[-1]}]{end}") == expected
    assert nodeset.expand(f"n[{','.join(numbers)}]{end}") == expected


@cases(text=texts(*LISTS))
def test_any_text_is_a_list_of_nodes_or_refused(text: str) -> None:
    found = answer(lambda: nodeset.expand(text), 2)
    assert found is None or len(set(found)) == len(found)


@cases(text=texts(*HOSTS))
def test_any_text_is_hosts_or_refused(text: str) -> None:
    found = answer(lambda: names.parse(text), 2)
    assert found is None or all(host.name and host.slots != 0 for host in found)


@cases(given=st.dictionaries(HOST, st.integers(1, 64), min_size=1, max_size=8))
def test_hosts_with_ranks_come_back(given: dict[str, int]) -> None:
    found = names.parse(",".join(f"{name}:{slots}" for name, slots in given.items()))
    assert {host.name: host.slots for host in found} == given
    assert names.parse_file("".join(f"{name} slots={slots}\n" for name, slots in given.items()), "hosts") == found


@cases(rows=lines(FILE))
def test_any_text_is_a_hostfile_or_refused(rows: list[str]) -> None:
    found = answer(lambda: names.parse_file("\n".join(rows), "hosts"), 2)
    assert found is None or all(host.name and host.slots != 0 for host in found)


def hashed(name: str, salt: bytes) -> str:
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


@cases(
    name=HOST,
    salt=st.binary(min_size=1, max_size=20),
    form=st.sampled_from(["plain", "hashed", "glob"]),
    noise=lines((f"h1,h2 ssh-ed25519 {KEY}", f"@revoked * ssh-rsa {KEY}0", "|1|abc|def ssh-rsa AAAA", "# none")),
)
def test_a_known_key_is_found_among_other_lines(name: str, salt: bytes, form: str, noise: list[str]) -> None:
    subject = {"plain": name, "hashed": hashed(name, salt), "glob": name[:1] + "*"}[form]
    others = [line for line in noise if not line.startswith("@")]
    keys = known_hosts.host_keys([*others, f"{subject} ssh-ed25519 {KEY}"], (name,))
    assert f"ssh-ed25519 {KEY}" in keys.keys
    revoked = known_hosts.host_keys([*others, f"{subject} ssh-ed25519 {KEY}", f"@revoked * ssh-ed25519 {KEY}"], (name,))
    assert f"ssh-ed25519 {KEY}" not in revoked.keys


@cases(
    rows=lines((f"h1,!h2,*.x ssh-ed25519 {KEY}", f"@cert-authority *.x ssh-rsa {KEY}", "|1|abc|def ssh-rsa A")),
    name=TEXT,
)
def test_any_lines_may_stand_in_known_hosts(rows: list[str], name: str) -> None:
    found = known_hosts.host_keys(rows, (name, f"[{name}]:22"))
    text = "\n".join(rows).split()
    assert all(word in text for key in found.keys for word in key.split(" "))


@cases(stars=st.integers(1, 30), letters=st.integers(1, 60), name=st.integers(1, 60))
def test_a_pattern_of_many_stars_is_no_hang(stars: int, letters: int, name: int) -> None:
    line = f"{'a*' * stars}{'a' * letters}b ssh-rsa {KEY}"
    assert known_hosts.host_keys([line], ("a" * name,)).keys == ()
