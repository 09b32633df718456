"""List the verbs: the module of each, its purpose on the page of help, and its summary in a shell's completions."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """A verb's module in the package `cli`, which is imported only if the verb is in use."""

    module: str
    purpose: str
    summary: str


VERBS = {
    "run": Verb("run", "Run", "run a program on every rank"),
    "plan": Verb("run", "Run", "show what run would do"),
    "submit": Verb("submit", "Run", "hand a job in as a batch script"),
    "shell": Verb("shell", "Run", "open a prompt in the container of a job"),
    "status": Verb("jobs", "Follow", "show jobs and their state"),
    "logs": Verb("jobs", "Follow", "show the output of a job"),
    "wait": Verb("jobs", "Follow", "wait until jobs have ended"),
    "cancel": Verb("jobs", "Follow", "end jobs, or send them a signal"),
    "exec": Verb("exec", "Follow", "run a command in the container of a running job"),
    "why": Verb("why", "Follow", "show where a job stands, or how it ended"),
    "report": Verb("why", "Follow", "show where the time of a launch went"),
    "check": Verb("check", "Set up", "show the runtimes, GPUs and MPIs of nodes"),
    "nodes": Verb("jobs", "Set up", "show partitions and their free nodes"),
    "image": Verb("image", "Set up", "build, pull and inspect images"),
    "init": Verb("profile", "Set up", "write a commented job file"),
    "profile": Verb("profile", "Set up", "show the values that every job starts with"),
    "completion": Verb("profile", "Set up", "print the completions of a shell"),
    "clean": Verb("clean", "Set up", "remove records of old jobs"),
    "help": Verb("words.help", "Set up", "show the help of a verb"),
    "version": Verb("words.help", "Set up", "show mnrun's version"),
}
