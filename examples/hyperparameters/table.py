"""Print the results of all tasks, the best first."""

import json
from pathlib import Path

rows = [json.loads(path.read_text()) for path in Path("results").glob("*.json")]
print(f"{'task':>4} {'rate':>6} {'batch':>6} {'error':>8}")
for row in sorted(rows, key=lambda row: row["error"]):
    print(f"{row['task']:>4} {row['rate']:>6} {row['batch']:>6} {row['error']:>8.4f}")
