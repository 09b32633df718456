# shellcheck shell=bash disable=SC2034,SC2154
# guard.sh sources this on its node at `go`, where the pipe connects the nodes (pipe_frames.sh). On a single node, which
# has nobody to reach, it does so at the first line of the pipe. That line is in mnrun_line, and goes to awk first.
# It routes the lines `ask|answer NODE OTHER ID KIND …` that are for this node. Words for a command go to the container.
# The rest goes to the receivers: the commands of this node, and processes here that wait for a command elsewhere.
#
# srun sends every line to all nodes, and bash takes a pipe byte by byte, because it must not read past its line (POSIX,
# read). So an awk stands between the lease and the guard from now on. It drops the lines for other nodes. Words for a
# command follow a line `words - SIZE`, because a size lets bash read them at once. Data goes into files BOX.STREAM.SLOT.
# There are as many slots as messages may be on the way. Once a message is whole, its SLOT comes to the guard in place of
# the data. `gap` comes where a line is missing.
# If awk cannot write a file, it ends, and so does the guard.
#
# The reader holds its pipe open, so a line is kept after the guard has closed it again. The guard never blocks here: at
# most a few short lines wait, and a pipe holds at least a page (pipe(7)).
trap : PIPE # a write to an ended container must not end the guard

route() { # Route the guard's present line, which is for this node
  local other id kind text box reader
  other=${mnrun_data%% *} text=${mnrun_data#* }
  id=${text%% *} text=${text#* }
  kind=${text%% *} text=${text#* }
  if [[ $mnrun_word == ask ]]; then box=run.$other.$id reader=$box.in; else box=ask.$id reader=$box.back; fi
  case $kind in
    took) reader=$box.room.$text text=1 ;;
    got) reader=$box.room ;;
    *) text="$kind $text" ;;
  esac
  {
    if [[ -p $reader ]]; then
      echo "$text" 1<>"$reader"
      [[ ! -p $reader ]] || return 0
      rm -f "$reader" # the pipe had gone, and the redirection has made a file
    fi
    [[ $text != [ieo]* ]] || rm -f "$box.${text/ /.}" # the message of a stream that nobody reads any more
  } 2>/dev/null || true
}

# mawk would wait for a full buffer of input without `-W interactive`, and other awks ignore that.
exec < <(
  deaf
  exec {mnrun_life}>&- {mnrun_up}>&- {mnrun_go}>&-
  LC_ALL=C exec awk -W interactive -v node="$mnrun_node" '
    function say(what) { print $1, $2, $3, $4, what; fflush() }
    function forget(stream) { if (stream in file) close(file[stream]); delete end[stream]; delete slot[stream]; delete file[stream] }
    function over(box) { forget(box ".in"); forget(box ".out"); forget(box ".err") }
    $1 != "ask" && $1 != "answer" { print; fflush(); next }
    $2 != node { next }
    $1 == "ask" && $5 ~ /^(words|run|signal)$/ {
      text = substr($0, length($1 $2) + 3)
      printf "words - %d\n%s\n", length(text) + 1, text
      fflush()
      if ($5 == "signal") over("run." $3 "." $4)
      next
    }
    { box = $1 == "ask" ? "run." $3 "." $4 : "ask." $4 }
    $5 ~ /^(in|out|err)[+]?$/ {
      name = $5
      more = sub(/[+]/, "", name)
      stream = box "." name
      split($6, range, "-")
      if (end[stream] == "lost") next
      if (range[1] != end[stream] + 0 || range[2] != range[1] + length($7)) {
        end[stream] = "lost"
        say(name " gap")
        next
      }
      end[stream] = range[2]
      file[stream] = stream "." slot[stream] + 0
      print $7 >file[stream]
      if (more) next
      close(file[stream])
      say(name " " slot[stream] + 0)
      slot[stream] = (slot[stream] + 1) % 8 # WINDOW in pipe_frames.sh
      next
    }
    # The end of a stream may be missing. eof and code carry the length.
    $5 == "eof" && $6 != end[box ".in"] + 0 { say("in gap"); say("in " slot[box ".in"] + 0); over(box); next }
    $5 == "code" && ($7 != end[box ".out"] + 0 || $8 != end[box ".err"] + 0) { say("code gap"); next }
    { print; fflush() }
    $5 ~ /^(eof|code|no)$/ { over(box) }
  ' ${mnrun_line:+/dev/fd/3} - 3<<<"${mnrun_line-}" 2>/dev/null
)
mnrun_filter=$!
