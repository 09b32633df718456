#!/bin/bash
# {{ title }}
# Written by mnrun {{ version }}{{ source }}; `mnrun plan` shows the same commands.
{% for line in directives %}
{{ line }}
{% endfor %}
# shellcheck disable=SC1091,SC2016,SC2034,SC2154  # walk.sh uses what is set here, and sets what is used

mnrun_stage={{ stage }}  # our wrappers; absolute, since slurmd runs a copy of this file
mnrun_jobs={{ jobs }}    # records: begun, log, outcome
source "$mnrun_stage/enter.sh"
{% if setup %}
trap 'mnrun_failed_at "$?" "$LINENO" "$BASH_COMMAND" "${BASH_SOURCE[0]}"' ERR
{% for line in setup %}
{{ line }}
{% endfor %}
trap - ERR
{% endif %}
set -euo pipefail  # not before: modules are not all safe under -u
{% if inherited %}
mnrun_inherited=(  # of every rank, with the values that they have here; before any name of ours is set
{% for line in inherited %}
  {{ line }}
{% endfor %}
)
{% else %}
mnrun_inherited=()
{% endif %}
mnrun_ranks=({{ ranks }})  # on each node
mnrun_variables=(  # of every rank
{% for line in variables %}
  {{ line }}
{% endfor %}
)
{% if fabric %}
mnrun_fabric=(  # of every rank, unless its surroundings or its image say otherwise
{% for line in fabric %}
  {{ line }}
{% endfor %}
)
{% endif %}
mnrun_inside='{{ inside }}'  # 1: inside-out
mnrun_connect='{{ connect }}'  # how its mpirun reaches the other nodes; auto: by ssh where all have it, else by the pipe
mnrun_counted='{{ counted }}'  # 1: it is an error if a rank never came, whatever mpirun says
{% if require %}
mnrun_require={{ require }}  # by what ranks on different nodes must talk, or the job has failed
{% endif %}
mnrun_split={{ split }}  # each rank's output goes into files here
source "$mnrun_stage/walk.sh"

begin  # $mnrun_here is the job's directory on each node, $mnrun_head the first of $mnrun_nodes; $mnrun_boot begins there
{% for line in exports %}
{{ line }}
{% endfor %}

{% if prepare %}
# 0 prepare: the image of a registry, on every node; $mnrun_image is what they call it
source "$mnrun_stage/image.sh"
prepare {{ pull_timeout }} {{ image }} {{ prepare }}
{% endif %}
# 1 serve: a guard on every node, whose input, the lease, lasts as long as this shell
serve {{ serve }}
{% if early %}
# 2 run: starts now, and waits on its node for go
run {{ run }}
# 3 await: every node is ready, or who is not, and why
await {{ start_timeout }}
go
{% else %}
# 2 await: every node is ready, or who is not, and why
await {{ start_timeout }}
{% if asking %}
# 3 ask: what the image's MPI speaks with srun; nobody has said it
speak {{ asking }}
{% endif %}
go
# {{ "4" if asking else "3" }} run
run {{ run }}
{% endif %}
# {{ "5" if asking else "4" }} stop: the lease ends, every guard ends what is left; these words only where one was killed
finish {{ sweep }}
