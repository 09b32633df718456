# shellcheck shell=bash disable=SC2034,SC2154
# guard.sh sources this on its node at `go`, where the pipe connects the nodes (docs/internals/pipe.md). On a single
# node, which has nobody to reach, it does so at the first line of the pipe, which is in mnrun_line.
# From now on, an awk stands between the lease and the guard. srun sends every line to all nodes, and awk drops those
# for others. It puts `words - SIZE` in front of the rest, which goes to worker.sh. Data goes into files
# BOX.STREAM.NAME. Once a message is whole, its NAME goes to the receiver in place of the data, or `gap` where a line is
# missing.
# NAME is random, because a container could put a link in the place of a name that it foresees.
# If awk cannot write a file, it ends, and so does the guard.
trap : PIPE # a write to an ended container must not end the guard

# mawk would wait for a full buffer of input without `-W interactive`, and other awks ignore that.
exec < <(
  deaf
  exec {mnrun_life}>&-
  unshared
  # shellcheck disable=SC2016  # awk's own
  LC_ALL=C exec awk -W interactive -v node="$mnrun_node" -v at="$mnrun_at" -v random=/proc/sys/kernel/random/uuid '
    function pass(what,   text) {
      text = $1 " " $3 " " $4 " " what
      printf "words - %d\n%s\n", length(text) + 1, text
      fflush()
    }
    function fresh(   name) {
      if ((getline name <random) < 1) exit 1
      close(random)
      return name
    }
    function forget(stream) {
      if (stream in file) close(file[stream])
      delete end[stream]
      delete name[stream]
      delete file[stream]
    }
    function over(files) { forget(files ".in"); forget(files ".out"); forget(files ".err") }
    $1 != "ask" && $1 != "answer" { print; fflush(); next }
    $2 != node { next }
    { files = $1 == "ask" ? "run." $3 "." $4 : "ask." $4 }
    $5 ~ /^(in|out|err)[+]?$/ {
      kind = $5
      more = sub(/[+]/, "", kind)
      stream = files "." kind
      split($6, range, "-")
      if (end[stream] == "lost") next
      if (range[1] != end[stream] + 0 || range[2] != range[1] + length($7)) {
        end[stream] = "lost"
        pass(kind " gap")
        next
      }
      end[stream] = range[2]
      if (!(stream in file)) {
        name[stream] = fresh()
        file[stream] = at "/" stream "." name[stream]
      }
      print $7 >file[stream]
      if (more) next
      close(file[stream])
      delete file[stream]
      pass(kind " " name[stream])
      next
    }
    # The end of a stream may be missing. eof and code carry the length.
    $5 == "eof" && $6 != end[files ".in"] + 0 { pass("in gap"); pass("in " name[files ".in"]); over(files); next }
    $5 == "code" && ($7 != end[files ".out"] + 0 || $8 != end[files ".err"] + 0) { pass("code gap"); next }
    { pass(substr($0, length($1 $2 $3 $4) + 5)) }
    $5 ~ /^(eof|code|no)$/ || $1 == "ask" && $5 == "signal" { over(files) }
  ' ${mnrun_line:+/dev/fd/3} - 3<<<"${mnrun_line-}" 2>/dev/null
)
mnrun_filter=$!
