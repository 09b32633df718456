"""What nodes of each partition have said of themselves, as the [fabric] tables of a profile. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from mnrun import nodeset
from mnrun.network.choose import Choice, asked, choose, chosen_of, told
from mnrun.network.facts import parse, too_small


@dataclass(frozen=True)
class Found:
    """What was found in a partition."""

    partition: str
    nodes: str
    choices: tuple[Choice, ...]
    hcas: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def everywhere(self) -> tuple[Choice, ...]:
        """What a script can say, which is the same on all nodes."""
        return tuple(one for one in self.choices if not one.apart)

    @property
    def nics(self) -> tuple[str, ...]:
        named = (one.value for one in self.everywhere if one.name in ("GLOO_SOCKET_IFNAME", "HYDRA_IFACE"))
        return tuple(dict.fromkeys(named))

    @property
    def lines(self) -> list[str]:
        """For people."""
        apart = [f"{one.name} differs between these nodes: left out" for one in self.choices if one.apart]
        found = [*told(self.everywhere), *apart] or ["nothing to choose: one node, or one network and no adapter"]
        warned = [f"warning: {line}" for line in self.warnings]
        return [f"partition {self.partition} ({self.nodes}):", *(f"    {line}" for line in (*found, *warned))]


def heard(partition: str, text: str) -> Found | None:
    """What `kit.asking` said on nodes of a partition; None where nobody spoke."""
    said, addresses = asked(text)
    nodes = {node: parse(lines) for node, lines in said.items()}
    if not nodes:
        return None
    chosen = choose(nodes, addresses)
    adapters = {tuple(dict.fromkeys(hca.name for hca in chosen_of(facts))) for facts in nodes.values()}
    small = dict.fromkeys(line for facts in nodes.values() for line in too_small(facts, len(nodes)))
    hcas = adapters.pop() if len(adapters) == 1 and len(nodes) > 1 else ()
    return Found(partition, nodeset.fold(nodes), chosen, hcas, tuple(small))


def profile(found: Iterable[Found], default: str, match: str, source: str) -> str:
    """The file: what the default partition has holds for all that have no table of their own."""
    lines = [f"# Written by mnrun profile learn: {source}"]
    lines += ["# A batch job's ranks are told this unless the job says otherwise; a live one asks its nodes."]
    lines += (
        [f"match.cluster = {json.dumps(match)}"] if match else ["# Not chosen by itself: --profile, or MNRUN_PROFILE"]
    )
    for one in found:
        table = "fabric" if one.partition == default else f"partition.{json.dumps(one.partition)}.fabric"
        lines += ["", f"[{table}]  # as on {one.nodes}", f"nics = {_list(one.nics)}", f"hcas = {_list(one.hcas)}"]
        lines += [f"[{table}.env]"] if one.everywhere else []
        lines += [f"{c.name} = {{ value = {_text(c.value)}, why = {_text(c.why)} }}" for c in one.everywhere]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"
