#!/bin/bash
# The launcher runs `verify_image.sh IMAGE KEY PROGRAM` on a node. It prints the digest of an image file, and the answer of
# `apptainer verify` (PROGRAM) about its signature, by the public key in the file KEY or by the user's keyring.
# facts.sh stands in front.
set -u
image=$1 key=$2 program=$3
if [[ ! -f $image || ! -r $image ]]; then
  fact missing "$([[ -d $image ]] && echo "a directory" || echo "no file that you can read")"
  exit 0
fi
read -r digest _ < <(sha256sum <"$image")
fact digest "sha256:$digest"
if command -v "$program" >/dev/null; then
  words=("$program" verify)
  [[ -z $key ]] || words+=(--key "$key")
  if said=$(timeout 30 "${words[@]}" "$image" 2>&1 </dev/null); then
    fact signature valid
  else
    fact signature "$(tail -n 1 <<<"$said" | sed -E 's/^FATAL: *(Failed to verify container: )?//')"
  fi
fi
exit 0
