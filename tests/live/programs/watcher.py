"""A stranger's watcher: waits until a name like PATTERN is in the list of processes, and becomes WORDS with it.

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
