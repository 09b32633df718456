"""Count words of texts by a pool of processes: pool.py PROCESSES. It is one rank, and uses the CPUs of its node."""

import os
import sys
from collections import Counter
from multiprocessing import Pool

TEXTS = [f"{'spam ' * number}eggs" for number in range(1, 401)]


def count(text: str) -> Counter[str]:
    return Counter(text.split())


if __name__ == "__main__":
    with Pool(int(sys.argv[1])) as pool:
        total = sum(pool.imap_unordered(count, TEXTS), Counter())
    print(f"{total['spam']} spam and {total['eggs']} eggs, by {sys.argv[1]} processes on {os.uname().nodename}")
