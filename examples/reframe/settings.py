"""ReFrame's configuration of a Slurm cluster, with mnrun as a launcher."""

from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher


@register_launcher("mnrun")
class MnrunLauncher(JobLauncher):
    """Start the program of a test by mnrun, in the allocation that ReFrame's batch script has."""

    def command(self, job):
        """Return the words before the options and the program."""
        return ["mnrun", "--ntasks", str(job.num_tasks)]


site_configuration = {
    "systems": [
        {
            "name": "cluster",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "main",
                    "scheduler": "slurm",
                    "launcher": "mnrun",
                    "environs": ["builtin"],
                    "sched_options": {"job_submit_timeout": 60},
                },
                {
                    "name": "noaccounting",  # for a site where sacct does not answer
                    "scheduler": "squeue",
                    "launcher": "mnrun",
                    "environs": ["builtin"],
                },
            ],
        }
    ]
}
