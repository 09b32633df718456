"""Kubernetes: pods as nodes, reached by kubectl exec. Its names are those of BatchScheduler."""

from mnrun.schedulers.common import *
from mnrun.schedulers.kubernetes import *
from mnrun.schedulers.kubernetes.allocate import allocated
from mnrun.schedulers.kubernetes.cluster import *
from mnrun.schedulers.kubernetes.submit import *
