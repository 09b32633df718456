#!/bin/bash
# shellcheck disable=SC2154  # engines.sh and the words in front of it set these
# fetch.sh runs this on a node for PREPARE, before any process of the job. nodes/kit.py puts engines.sh in front of it.
# It brings the image of a reference to this node. Its words are
#     pull_image.sh KIND REFERENCE POLICY CACHE JOB PROGRAM…
# The rest of its standard input is a lease. When the lease ends, all its processes end, and no partial file remains.
# Where mnrun_beat and mnrun_silence are set, both sides send signs of life, as for guards (guard.sh).
#
# With KIND file, PROGRAM converts the image to a file in CACHE. It does so once for each digest, for all nodes that
# share the directory.
#     sha256-DIGEST.sif   An image. A tag that has moved makes another file. The file's time is the last use by a job.
#     refs/NAME           The result for a reference: the digest, the runtime's own key for it, the job that asked, and
#                         the reference itself.
#     refs/NAME.lock/     The lock of a node that converts it. It holds the owner, a counter as a sign of life, and all
#                         partial files.
# With KIND store, PROGRAM (docker, podman) has its own store on each node, and locks it by itself.
#
# Standard output carries lines `WORD NODE …`:
#     here, pulling WHAT, image DIGEST WHERE, fail WHY (the node's fault), unpulled WHY (the image's fault), alive
set -euo pipefail +o posix
kind=$1 reference=$2 policy=$3 cache=$4 job=$5
program=("${@:6}")
node=${MNRUN_NODE:-${SLURMD_NODENAME:-$(uname -n)}}
STALE=30 # seconds: the holder of a lock whose counter stands still for longer counts as dead

say() { printf '%s\n' "$1 $node ${*:2}"; }

nap() { read -rt "$1" -u "$pause" || true; } # SECONDS: Wait on a pipe that is never written, without a process

fail() { # WHY: Report a fault of the node, and exit
  say fail "$*"
  exit 1
}

unpulled() { # Report a fault of the image, and exit
  say unpulled "$(why)"
  exit 1
}

# The main shell runs clean at its end. If the main shell is killed, the undertaker runs it. The undertaker is no child
# of the step, and a pipe tells it.
# Both have had SPARE as their working directory since it was made. They use its name in /tmp only once more, to remove
# it if it is still this very directory.
clean() { # SPARE LOCK OWNER JOB: End and remove all that was started here
  # The undertaker finishes a removal in which the main shell was killed. So both use the same name for the lock.
  local group='' away=$2.${3// /.}.gone
  grep -slzxF -- "MNRUN_JOB_ID=$4" /proc/[0-9]*/environ | cut -d/ -f3 | xargs -r kill -KILL 2>/dev/null
  { read -r group <./group; } 2>/dev/null
  [[ ! $group =~ ^[0-9]+$ ]] || ((group < 2)) || kill -KILL -- "-$group" 2>/dev/null
  if [[ -n $2 && $(cat "$2/owner" 2>/dev/null) == "$3" ]]; then
    mv "$2" "$away"
  fi
  [[ -z $2 || ! -e $away ]] || rm -rf -- "$away"
  if [[ -O . && . -ef $1 ]]; then # the user owns this directory, and it is the working directory
    chmod -R u+rwX . 2>/dev/null
    rm -rf -- "$1"
  fi
}

undertake() { # SPARE LOCK OWNER JOB: Wait for the end of the main shell, and clean if it was killed
  local word
  trap '' HUP INT TERM USR1 USR2
  while read -r word; do [[ $word != 'done' ]] || return 0; done
  clean "$@"
}

finish() { # End the main shell: clean up, and stop the watch
  ((BASHPID == $$)) || return 0 # a child that ends before it has reset its traps runs this trap, too
  set +e
  cleaned
  [[ -z ${watch-} ]] || kill "$watch" 2>/dev/null
}

cleaned() { # Clean up once, and dismiss the undertaker
  # A lease that ends now must wait. Where Slurm holds steps in control groups, the undertaker dies with this shell.
  trap '' TERM INT HUP
  [[ -n ${life-} ]] || return 0
  local told=$life
  life=''
  clean "$spare" "$lock" "$owner" "$job"
  trap '' PIPE # the undertaker, which reads this pipe, may have been killed
  echo 'done' >&"$told"
  exec {told}>&-
}

# --- plain error messages for a runtime's output

last_line() { # Print the last line of the runtime's output, without colours and the name of the failed part
  sed -e 's/\x1b\[[0-9;]*m//g' -e 's/.*\r//' "$spare/log" 2>/dev/null | grep -v '^ *$' | tail -n 1 |
    sed -E 's/^(FATAL|ERROR|Error) *: *|^Error response from daemon: *//; s/(While making image from oci registry|error fetching image to cache|failed to get checksum for [^ ]*): //g'
}

why() { # Print why the image is missing, and the remedy
  local said registry=${reference#*://}
  said=$(last_line)
  registry=${registry%%/*}
  [[ $registry == *[.:]* || $registry == localhost ]] || registry=docker.io
  # The order counts. A line that names a program or a refusal often also has `not found` or `does not exist`.
  case $said in
    *"docker-credential-"*"executable file not found"*)
      echo "cannot pull $reference: the login helper of ~/.docker/config.json is not on this node: remove credsStore from that file, and log in again ($said)" ;;
    *"executable file not found"*) echo "cannot pull $reference: this node lacks a program that ${program[0]} needs ($said)" ;;
    # Below, `permission denied` is the kernel's text for a file (EACCES), not a registry's.
    *"permission denied"*) echo "cannot pull $reference: $said" ;;
    *uthentication* | *nauthorized* | *denied* | *"no basic auth"* | *forbidden* | *Forbidden*)
      echo "$registry refuses the login for $reference: $login ($said)" ;;
    *"manifest unknown"* | *"name unknown"* | *"not found"* | *"does not exist"*)
      echo "there is no $reference: check its name and tag ($said)" ;;
    *toomanyrequests*) echo "$registry refuses further requests from here: $login ($said)" ;;
    *"no such host"* | *"server misbehaving"*) echo "the name ${registry%:*} does not resolve on this node: $offline ($said)" ;;
    *x509*) echo "this node does not trust the certificate of $registry: an admin adds its CA to the system's certificates ($said)" ;;
    *"connection refused"* | *"i/o timeout"* | *unreachable* | *"no route to host"* | *"context deadline"*)
      echo "the registry $registry does not answer: $offline ($said)" ;;
    *"o space left"* | *"quota exceeded"*) echo "no space left: $room ($said)" ;;
    *) echo "cannot pull $reference: ${said:-${program[0]} said nothing}" ;;
  esac
}

run() { # WORDS: Run a command of the runtime in a process group of its own
  # A tender reports its output while it works.
  local tender pid code=0
  set -m
  MNRUN_JOB_ID=$job "$@" >"$spare/log" 2>&1 </dev/null {life}>&- &
  pid=$!
  set +m
  echo "$pid" >"$spare/group"
  {
    trap - EXIT
    local beat=0 said='' now
    while kill -0 $$ 2>/dev/null; do
      [[ -z $lock ]] || echo "$((beat += 1))" >"$lock/beat" || true
      now=$(sed -e 's/.*\r//' -e 's/^INFO: *//' "$spare/log" | grep -v '^ *$\|warn rootless' | tail -n 1)
      [[ $now == "$said" ]] || say pulling "${now:0:200}"
      said=$now
      nap 1
    done
  } {life}>&- 2>/dev/null &
  tender=$!
  wait "$pid" || code=$?
  kill -KILL "$tender" 2>/dev/null || true # KILL, because a subshell that has just begun can lose any other signal
  wait "$tender" 2>/dev/null || true
  rm -f "$spare/group"
  return "$code"
}

# --- images that become files: Apptainer

mine() { # Exit with an error unless the cache belongs to the user alone
  # An image there is trustworthy only if no other user can have put or renamed one.
  local mode place=$cache above=()
  [[ -e $cache || -L $cache ]] || return 0
  [[ -O $cache && -d $cache ]] || fail "$cache does not belong to you: name another with --image-cache"
  (((8#$(stat -Lc %a -- "$cache") & 8#022) == 0)) || fail "other users may write to $cache: chmod go-w $cache, or name another with --image-cache"
  while [[ $place == */* && ${place%/*} ]]; do place=${place%/*} above+=("$place"); done
  ((${#above[@]})) || return 0
  # A process that may write to a directory can rename its entries, except under the sticky bit (rename(2), EPERM).
  while read -r mode place; do
    ((8#$mode & 8#1000 || !(8#$mode & 8#002))) || fail "any user may write to $place, which contains $cache: name another with --image-cache"
  done < <(stat -Lc '%a %n' -- "${above[@]}")
}

known() { # Test whether the reference has been converted, and its file exists
  if [[ $reference == *@sha256:* ]]; then # a digest means the same image under any name
    digest=${reference##*@} key='' by=$job
    [[ ! -s $cache/${digest/:/-}.sif ]] || return 0
  fi
  [[ -e $ref ]] || return 1
  read -r digest key by _ <"$ref" || return 1
  [[ -s $cache/${digest/:/-}.sif ]]
}

will_do() { # Test whether the file in the cache is usable
  # With --pull always, this job must have asked the registry for it.
  known && [[ $policy != always || $by == "$job" ]]
}

ours() { [[ $(cat "$lock/owner" 2>/dev/null) == "$owner" ]]; } # Test whether this process holds the lock

take() { # Take the lock. Return false where another node has converted the image meanwhile
  # It waits for a holder that lives.
  local beat now seen=$SECONDS told='' holder
  mkdir -p "$cache/refs" 2>"$spare/log" || fail "cannot make $cache: $(last_line); name another with --image-cache"
  mine
  beat=''
  until mkdir "$lock" 2>"$spare/log"; do
    [[ -d $lock ]] || { [[ $(last_line) == *"File exists"* ]] || fail "cannot write to $cache: $(last_line); name another with --image-cache"; }
    holder=$(cat "$lock/owner" 2>/dev/null) || holder=
    now=$holder/$(cat "$lock/beat" 2>/dev/null) || true
    if [[ $now != "$beat" ]]; then
      beat=$now seen=$SECONDS
    elif ((SECONDS - seen > STALE)) || { [[ $holder == "$node "* ]] && [[ ! -e /proc/${holder#* } ]]; }; then
      # Several nodes may find the lock stale. mkdir lets one of them claim it. That one removes the lock if it is still
      # the same.
      if mkdir "$lock/claim" 2>/dev/null && [[ $(cat "$lock/owner" 2>/dev/null) == "$holder" ]]; then
        mv "$lock" "$lock.${owner// /.}.gone" && rm -rf "$lock.${owner// /.}.gone"
      fi
      seen=$SECONDS
      continue
    fi
    if [[ -z $told ]]; then
      told=1
      say pulling "waits for ${holder%% *}, which converts it"
    fi
    nap 0.3
    ! will_do || return 1
  done
  echo "$owner" >"$lock/owner"
  ! will_do
}

convert() { # Convert the image into the cache, and record the reference
  local before='' found file
  mkdir -p "$lock/cache/cache/oci-tmp"
  # Apptainer names a converted image in its cache by its own key. If that file exists, Apptainer only asks the registry
  # and converts nothing.
  if known; then
    before=$digest
    ln "$cache/${digest/:/-}.sif" "$lock/cache/cache/oci-tmp/$key" 2>/dev/null || true
  fi
  export APPTAINER_CACHEDIR=$lock/cache APPTAINER_TMPDIR=$spare SINGULARITY_CACHEDIR=$lock/cache SINGULARITY_TMPDIR=$spare
  run "${program[@]}" pull --force "$lock/new.sif" "$reference" || {
    # Another node may have judged this one dead and removed its files. The caller then tries again.
    ours || return 1
    unpulled
  }
  found=$(sed -n 's/.*"digest": *"\(sha256:[0-9a-f]*\)".*/\1/p' "$lock/cache/cache/blob/index.json" 2>/dev/null | tail -n 1) || found=
  for file in "$lock"/cache/cache/{oci-tmp,oras,library}/*; do [[ ! -f $file ]] || key=${file##*/}; done
  if [[ -z $found && -n $before && -e $lock/cache/cache/oci-tmp/$key ]]; then
    found=$before # the registry still has the same image
  elif [[ -z $found ]]; then
    # oras and library have the image as one file, and no index.
    found=sha256:$(sha256sum <"$lock/new.sif" | cut -d' ' -f1) || unpulled
  fi
  digest=$found
  ours || return 1
  file=$cache/${digest/:/-}.sif
  [[ -s $file ]] || mv "$lock/new.sif" "$file"
  echo "$digest $key $job $reference" >"$lock/ref"
  mv "$lock/ref" "$ref"
}

in_cache() { # Bring the image into the cache, and report its file
  local file=''
  login="\`apptainer registry login\`, \`docker login\`, or APPTAINER_DOCKER_USERNAME and _PASSWORD"
  offline="pull it where that works, with \`${program[0]} pull app.sif $reference\`, and write --image app.sif"
  room="of $cache, or of $spare (APPTAINER_TMPDIR), whose disk is full"
  mine
  until [[ -n $file && -s $file ]]; do # `mnrun clean` may just have removed the file
    if ! will_do; then
      [[ $policy != never ]] ||
        fail "$reference is not in $cache, and --pull never forbids to pull it: use --pull missing"
      until take && convert; do
        if will_do; then break; fi
      done
    fi
    file=$cache/${digest/:/-}.sif
    touch -c "$file" 2>/dev/null || true # `mnrun clean` leaves recently used files alone
  done
  say image "$digest" "$file"
}

# --- images in a store of the runtime: Docker, Podman

CONTENT='{{range .RootFS.Layers}}{{.}} {{end}}
{{range .Config.Env}}{{json .}} {{end}}
{{range .Config.Entrypoint}}{{json .}} {{end}}
{{range .Config.Cmd}}{{json .}} {{end}}'

# Print the id of the image in the store.
stored() { ask 60 image inspect --format '{{.Id}}' "$reference" 2>"$spare/log"; }

in_store() { # Bring the image into the node's store, and report its id
  local id='' full=$reference host content
  # `podman login` writes below XDG_RUNTIME_DIR, which exists only on the machine of the login
  # (containers-auth.json(5)).
  login="\`docker login\`"
  [[ $mnrun_runtime == docker ]] || login+=", or \`podman login\` with --authfile ~/.config/containers/auth.json"
  offline="the nodes must reach it; --image FILE with --runtime apptainer needs no registry"
  room="of the node's store"
  id=$(usable) || fail "$id"
  host=${reference%%/*}
  # podman does not guess the registry of a short name.
  if [[ $mnrun_runtime == podman && ! ($reference == */* && ($host == *[.:]* || $host == localhost)) ]]; then
    full=docker.io/$([[ $reference == */* ]] || echo library/)$reference
  fi
  [[ $policy == always && $reference != localhost/* ]] || id=$(stored) || id=
  # podman names an image that was built here so, and no registry has it.
  [[ -n $id || $reference != localhost/* ]] ||
    fail "$mnrun_runtime has no image $reference on this node: load it there, or name an image of a registry"
  if [[ -z $id && $policy == never ]]; then
    fail "$reference is not on this node, and --pull never forbids to pull it: use --pull missing"
  elif [[ -z $id ]]; then
    run "${mnrun_engine[@]}" pull "$full" || unpulled
    reference=$full
    id=$(stored) || unpulled
  fi
  if ! mapped "$id"; then
    say pulling "copied for the ids of $(id -un)"
    run map "$id" || true # without that copy each container makes its own
  fi
  # The digest for all nodes comes from the parts of the image that a job sees. The id does not serve. An image that
  # each node has imported or built has other times in it, and so another id. Other fields differ between versions of
  # docker.
  content=$(ask 60 image inspect --format "$CONTENT" "$id" | sha256sum) || unpulled
  say image "sha256:${content%% *}" "$id"
}

base=${APPTAINER_TMPDIR:-${TMPDIR:-/tmp}}
spare=$base/mnrun.pull.$$.$RANDOM lock='' owner="$node $$"
[[ $kind != file ]] || {
  name=${reference//[^A-Za-z0-9._-]/_}
  ref=$cache/refs/${name:0:120}-$(cksum <<<"$reference" | cut -d' ' -f1)
  lock=$ref.lock
}
{ mkdir -m 700 -- "$spare" 2>/dev/null && cd -- "$spare"; } || fail "cannot write to $base: name another directory with TMPDIR"
exec {life}> >(setsid bash -p -c "$(declare -f clean undertake); undertake \"\$@\" <&0 >/dev/null 2>&1 &" undertake "$spare" "$lock" "$owner" "$job")
exec {pause}<> <(:)
trap finish EXIT
trap 'exit 143' TERM INT HUP
trap : USR1 USR2 CONT
{
  trap - EXIT
  trap '' PIPE # the reader of the output may have gone
  waited=0
  # Every line is only a sign of life. `read` returns more than 128 where no line came in time. The rounds have 5 s.
  # While Slurm suspends the job, the clock goes on. One long round would end before the waiting lines are read.
  while read -r ${mnrun_silence:+-t 5} && waited=0 || (($? > 128 && (waited += 5) < mnrun_silence)); do
    [[ -z $mnrun_beat ]] || say alive || break
  done
  kill -TERM $$
} <&0 {life}>&- 2>/dev/null &
watch=$!
if [[ $kind == file ]]; then in_cache; else in_store; fi
set +e
cleaned # other nodes may wait for the lock, so this comes before the end
trap 'exit 0' TERM INT HUP
wait "$watch" # the launcher ends the lease once all nodes have the image
