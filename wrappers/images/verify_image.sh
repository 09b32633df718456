#!/bin/bash
# The launcher runs `verify_image.sh CACHE IMAGE KEY PROGRAM` on a node. It prints the digest of an image file, and the
# answer of `apptainer verify` (PROGRAM) about its signature, by the public key in the file KEY or by the user's
# keyring. CACHE is the image cache that the image is from, or "".
# needs: facts.sh exposed.sh
set -u
cache=$1 image=$2 key=$3 program=$4
if [[ -n $cache ]] && foreign "$cache"; then
  fact missing "$REPLY"
  exit 0
fi
if [[ ! -f $image || ! -r $image ]]; then
  fact missing "$([[ -d $image ]] && echo "a directory" || echo "no file that you can read")"
  exit 0
fi
read -r digest _ < <(sha256sum <"$image")
fact digest "sha256:$digest"
if command -v "$program" >/dev/null; then
  words=("$program" verify)
  [[ -z $key ]] || words+=(--key "$key")
  # Apptainer reads the whole image, as sha256sum has just done. The launcher waits for 150 s in all.
  limit=$((SECONDS < 130 ? 140 - SECONDS : 10))
  code=0
  said=$(timeout "$limit" "${words[@]}" "$image" 2>&1 </dev/null) || code=$?
  case $code in
    0) fact signature valid ;;
    124) fact signature "$program has not answered in $limit s" ;;
    *) fact signature "$(tail -n 1 <<<"$said" | sed -E 's/^FATAL: *(Failed to verify container: )?//')" ;;
  esac
fi
exit 0
