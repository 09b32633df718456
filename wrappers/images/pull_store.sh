# shellcheck shell=bash disable=SC2034,SC2154
# Functions of pull_image.sh for an image in PROGRAM's own store (KIND store).
# PROGRAM (docker, podman) has a store on each node, and locks it by itself.

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
