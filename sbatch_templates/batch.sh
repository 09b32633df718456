#!/bin/bash
# {{ title }}
# Written by mnrun {{ version }}{{ source }}
# You may edit this script, and submit it with {{ submit }}. The first node of the job needs mnrun at the path below.
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
{% if variables %}
mnrun_variables=( # they go through a pipe, since everybody can read a command line
{% for line in variables %}
  {{ line }}
{% endfor %}
)
exec {mnrun_pipe}< <(printf '%s\0' "${mnrun_variables[@]}" &)
wait "$!" # mnrun, which this script becomes, knows no process of it
{% endif %}
shopt -s execfail # the script goes on if mnrun cannot be started
exec {{ mnrun }} run --as-given "${mnrun_options[@]}"{% if variables %} --env-file="/dev/fd/$mnrun_pipe"{% endif %} {{ command }}
echo "mnrun: cannot start {{ mnrun }} on $(uname -n): a submitted job needs mnrun on its first node; name another path with --mnrun" >&2
exit 122
