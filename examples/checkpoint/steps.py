"""Go twenty steps, and save each: a job that Slurm starts again goes on from the last one."""

import json
import os
import time
from pathlib import Path

STEPS = 20
STATE = Path("state.json")


def load() -> dict[str, int]:
    """Return the last state that was saved, or the first one."""
    return json.loads(STATE.read_text()) if STATE.exists() else {"step": 0, "sum": 0}


def save(state: dict[str, int]) -> None:
    """Save the state whole or not at all: a job may be killed at any moment."""
    part = STATE.with_suffix(".part")
    part.write_text(json.dumps(state))
    part.rename(STATE)


if __name__ == "__main__":
    if os.environ["RANK"] != "0":
        raise SystemExit  # a real program computes on all ranks
    state = load()
    print(f"start {os.environ.get('SLURM_RESTART_COUNT', '0')}: goes on after step {state['step']}", flush=True)
    while state["step"] < STEPS:
        time.sleep(0.5)
        step = state["step"] + 1
        state = {"step": step, "sum": state["sum"] + step**2}
        save(state)
    print(f"after {STEPS} steps: the sum is {state['sum']}")
