"""Hosts without a scheduler, reached by ssh or pdsh. The names of this package are those of Scheduler."""

from mnrun.schedulers.common import *
from mnrun.schedulers.hosts.steps import beside

TITLE = "--hosts"
