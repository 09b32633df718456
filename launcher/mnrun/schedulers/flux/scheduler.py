"""Flux: jobs, their nodes by flux exec, scripts and the queue. Its names are those of BatchScheduler."""

from mnrun.schedulers.common import *
from mnrun.schedulers.flux import *
from mnrun.schedulers.flux.cluster import *
from mnrun.schedulers.writing import output
