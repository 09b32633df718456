"""A check for ReFrame: every rank of an MPI program in an image says its number and its node."""

import os

import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class RanksTest(rfm.RunOnlyRegressionTest):
    """Two ranks on each of two nodes add up their numbers."""

    valid_systems = ["*"]
    valid_prog_environs = ["builtin"]
    image = variable(str, value=os.path.abspath("mpi.sif"))
    num_tasks = 4
    num_tasks_per_node = 2
    sourcesdir = "src"
    executable = "python3"
    executable_opts = ["ranks.py"]

    @run_before("run")
    def use_image(self):
        """Hand the image to mnrun."""
        self.job.launcher.options = ["--image", self.image]

    @sanity_function
    def every_rank_has_spoken(self):
        """Look for each rank, with the sum of all."""
        spoken = sn.extractall(r"^rank (\d) of 4 on \S+: the sum is 6$", self.stdout, 1, int)
        return sn.assert_eq(sn.sorted(spoken), [0, 1, 2, 3])
