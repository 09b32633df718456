"""A stranger's watcher: reads the list of processes until a name like PATTERN is in it, and becomes WORDS with that name.

usage: watcher.py PATTERN WORDS…
"""

import os
import re
import sys
import time

pattern, words = re.compile(os.fsencode(sys.argv[1])), sys.argv[2:]
while True:
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                found = pattern.search(file.read())
        except OSError:
            continue
        if found:
            os.execvp(words[0], [*words, os.fsdecode(found[0])])
    time.sleep(0.05)
