"""LSF: jobs, their nodes by blaunch, scripts and the queue. Its names are those of BatchScheduler."""

from mnrun.schedulers.common import *
from mnrun.schedulers.lsf import *
from mnrun.schedulers.lsf.cluster import *
from mnrun.schedulers.lsf.options import directives
from mnrun.schedulers.writing import output
