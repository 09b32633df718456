"""Count prime numbers. Each rank takes its share of the candidates, and needs to know nothing of the others."""

import os

LIMIT = 60_000


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


if __name__ == "__main__":
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    found = sum(map(is_prime, range(LIMIT * rank // size, LIMIT * (rank + 1) // size)))
    print(f"{found} primes by rank {rank} on {os.uname().nodename}", flush=True)
