"""A process whose name looks like a line of its own in the list of processes, where P is a child of Q.

usage: namesake.py P Q — as the last of those that are read, since the last line about P is believed.
"""

import ctypes
import os
import sys
import time

child, parent = sys.argv[1:]
while str(os.getpid()) < child:  # in the order in which a shell's * gives them
    if os.fork():
        os._exit(0)
    time.sleep(0.001)
ctypes.CDLL(None).prctl(15, f"\n{child} {parent}\n".encode(), 0, 0, 0)  # PR_SET_NAME
print("named", flush=True)
time.sleep(3600)
