"""Ask a PMIx server to start a program: pmix_tool.py URI COMMAND. The structures are those of pmix_common.h."""

from __future__ import annotations

import os
import sys
from ctypes import CDLL, POINTER, Structure, byref, c_char, c_char_p, c_int, c_size_t, c_uint16, c_uint32, c_void_p

STRING = 3  # PMIX_STRING


class Proc(Structure):
    _fields_ = [("nspace", c_char * 256), ("rank", c_uint32)]


class Value(Structure):
    _fields_ = [("type", c_uint16), ("text", c_char_p), ("rest", c_char * 16)]


class Info(Structure):
    _fields_ = [("key", c_char * 512), ("flags", c_uint32), ("value", Value)]


class App(Structure):
    _fields_ = [
        ("command", c_char_p),
        ("argv", POINTER(c_char_p)),
        ("env", POINTER(c_char_p)),
        ("cwd", c_char_p),
        ("maxprocs", c_int),
        ("info", c_void_p),
        ("ninfo", c_size_t),
    ]


def info(key: str, value: str) -> Info:
    return Info(key.encode(), 0, Value(STRING, value.encode()))


def main(uri: str, command: str) -> int:
    pmix = CDLL("libpmix.so.2")
    wanted = info("pmix.srvr.uri", uri)
    if code := pmix.PMIx_tool_init(byref(Proc()), byref(wanted), c_size_t(1)):
        return int(code)
    layout = info("pmix.mapby", "slot:OVERSUBSCRIBE")
    argv = (c_char_p * 4)(b"/bin/sh", b"-c", command.encode(), None)
    app = App(b"/bin/sh", argv, (c_char_p * 1)(None), b"/", 1, None, 0)
    started = (c_char * 256)()
    return int(pmix.PMIx_Spawn(byref(layout), c_size_t(1), byref(app), c_size_t(1), started))


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2]), flush=True)
    os._exit(0)  # the library's end would wait for the server
