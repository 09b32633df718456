"""List the verbs: the module of each, its purpose on the page of help, and its summary in a shell's completions."""

from __future__ import annotations

from mnrun.record import Record


class Verb(Record):
    """A verb's module in the package `cli`, which is imported only if the verb is in use."""

    module: str
    purpose: str
    summary: str


VERBS = {
    "run": Verb("run", "Run", "run a program on every rank"),
    "plan": Verb("run", "Run", "show what run would do"),
    "submit": Verb("run", "Run", "hand a job in as a batch script"),
    "rerun": Verb("rerun", "Run", "submit a job once more, with other options"),
    "shell": Verb("run", "Run", "open a prompt in the container of a job"),
    "serve": Verb("serve", "Run", "run a service, such as Jupyter, and show its page"),
    "status": Verb("jobs", "Follow", "show jobs and their state"),
    "logs": Verb("jobs", "Follow", "show the output of a job"),
    "wait": Verb("jobs", "Follow", "wait until jobs have ended"),
    "cancel": Verb("jobs", "Follow", "end jobs, or send them a signal"),
    "exec": Verb("exec", "Follow", "run a command in the container of a running job"),
    "cp": Verb("cp", "Follow", "copy files into a running job, or out of it"),
    "proxy": Verb("proxy", "Follow", "connect standard input and output to a running job, for ssh"),
    "ssh-config": Verb("proxy", "Follow", "print the lines of ~/.ssh/config by which ssh enters jobs"),
    "top": Verb("top", "Follow", "show what a running job uses"),
    "why": Verb("why", "Follow", "show where a job stands, or how it ended"),
    "report": Verb("why", "Follow", "show where the time of a launch went"),
    "check": Verb("check", "Set up", "show the runtimes, GPUs and MPIs of nodes"),
    "nodes": Verb("jobs", "Set up", "show partitions and their free nodes"),
    "image": Verb("image", "Set up", "build, pull and inspect images"),
    "init": Verb("init", "Set up", "write a job file, or this command as one"),
    "shim": Verb("shim", "Run", "run lines that were written for pyxis"),
    "migrate": Verb("migrate", "Run", "write a batch script of other tools anew"),
    "import": Verb("profile", "Run", "write the job file of an MPIJob"),
    "profile": Verb("profile", "Set up", "show the values that every job starts with"),
    "completion": Verb("profile", "Set up", "print the completions of a shell"),
    "clean": Verb("clean", "Set up", "remove records of old jobs"),
    "help": Verb("help", "Help", "show the help of a verb, or a page"),
    "explain": Verb("explain", "Help", "explain an exit code or a message"),
    "version": Verb("words.help", "Help", "show mnrun's version"),
}
