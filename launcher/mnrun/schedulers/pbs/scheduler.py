"""PBS: jobs, their nodes by ssh and pbs_attach, scripts and the queue. Its names are those of BatchScheduler."""

from mnrun.schedulers.common import *
from mnrun.schedulers.pbs import *
from mnrun.schedulers.pbs.cluster import *
