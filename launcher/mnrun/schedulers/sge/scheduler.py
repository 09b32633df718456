"""Grid Engine: jobs, their nodes by qrsh, scripts and the queue. Its names are those of BatchScheduler."""

from mnrun.schedulers.common import *
from mnrun.schedulers.sge import *
from mnrun.schedulers.sge.cluster import *
from mnrun.schedulers.writing import output
