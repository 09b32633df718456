#!/bin/bash
# {{ title }}
# Written by mnrun {{ version }}{{ source }}
# Edit it, keep it, sbatch it: it needs nothing but mnrun at the path below, on the job's first node.
{% for line in directives %}
{{ line }}
{% endfor %}
{% if setup %}

trap 'echo "mnrun: failed with $?: $(sed -n "${LINENO}p" "$0")" >&2; exit 122' ERR
{% for line in setup %}
{{ line }}
{% endfor %}
trap - ERR
{% endif %}

mnrun_options=(
{% for line in options %}
  {{ line }}
{% endfor %}
)
shopt -s execfail # so that the line after it is reached where that mnrun cannot be started
exec {{ mnrun }} run --as-given "${mnrun_options[@]}" {{ command }}
echo "mnrun: cannot start {{ mnrun }} on ${SLURMD_NODENAME:-$HOSTNAME}: a submitted job needs mnrun on its first node; name another path with --mnrun" >&2
exit 122
