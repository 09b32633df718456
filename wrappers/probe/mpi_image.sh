#!/bin/sh
# mpi_node.sh runs this as `mpi_image.sh node|image` on the node, and in a container of the image. It prints
# the MPI facts in lines `node|image NAME VALUE`. It judges nothing.
# needs: mpis.sh
subject=$1
# NAME VALUE: Print a fact as a line. The value is shortened, and has no tab or newline.
fact() { [ -z "$2" ] || printf '%s %s %s\n' "$subject" "$1" "$(echo "$2" | tr '\n\t' '  ' | cut -c 1-300)"; }
library() { # NAME: Print the PMIx version that stands in the library NAME
  for file in /usr/lib*/"$1".so.? /usr/lib/*/"$1".so.? /usr/local/lib*/"$1".so.? /opt/*/lib*/"$1".so.? /opt/*/*/lib*/"$1".so.?; do
    [ ! -r "$file" ] || tr -cs '[:print:]' '\n' <"$file" | grep -oE 'PMIx v?[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1
  done | head -n 1
}
built_in() { # Print the PMIx version built into an Open MPI 4, which replaces a libpmix
  for place in /usr/lib*/openmpi /usr/lib/*/openmpi /usr/local/lib /opt/*/lib /opt/*/*/lib; do
    for file in "$place"/libopen-pal.so.40 "$place"/mca_pmix_pmix3x.so "$place"/openmpi/mca_pmix_pmix3x.so; do
      [ ! -r "$file" ] || ! grep -q pmix3x "$file" || tr -cs '[:print:]' '\n' <"$file" | grep -oE '^3\.[0-9]+\.[0-9]+' | head -n 1
    done
  done | head -n 1
}
pythons() { # Print the facts on the first Python of PATH, its PyTorch and the CUDA of both. It starts no process
  before=$IFS IFS=:
  for place in $PATH; do [ ! -x "$place/python3" ] || break; done
  IFS=$before
  for file in "$place"/python3.[0-9] "$place"/python3.[0-9][0-9]; do
    [ ! "$file" -ef "$place/python3" ] || echo "$subject python ${file##*/python} ($place/python3)"
  done
  case $place in
    /usr/bin | /bin) first=/usr/local/lib second=/usr/lib ;; # Debian's pip writes to /usr/local
    *) first=${place%/bin}/lib second=${place%/bin}/lib64 ;;
  esac
  for file in "$first"/python3*/*-packages/torch/version.py "$second"/python3*/*-packages/torch/version.py; do
    [ -r "$file" ] || continue
    while read -r name rest; do # __version__ = '2.4.1+cu121', cuda: Optional[str] = '12.1'
      rest=${rest#*\'} rest=${rest%%\'*}
      case $name/$rest in
        __version__/[0-9]*) echo "$subject pytorch $rest" ;;
        cuda/[0-9]* | cuda:/[0-9]*) echo "$subject pytorch_cuda $rest" ;;
      esac
    done <"$file"
    break
  done
  for file in /usr/local/cuda-[0-9]*; do [ ! -d "$file" ] || echo "$subject toolkit ${file##*-}"; done
}
mpis | while read -r kind program; do
  version=''
  case $kind in
    hangs | unknown) ;;
    *) version=$(timeout -s KILL 5 "$program" --version 2>&1 </dev/null) || case $? in 124 | 137) kind=hangs ;; esac ;;
  esac
  fact mpi "$kind $program $(echo "$version" | head -n 3)"
done
pmix=$(library libpmix)
fact pmix "${pmix:-$(built_in)}"
fact glibc "$(getconf GNU_LIBC_VERSION 2>/dev/null)"
fact cuda "${CUDA_VERSION-}"
fact require "${NVIDIA_REQUIRE_CUDA-}"
fact compat "$(ls -d /usr/local/cuda/compat/libcuda.so.1 2>/dev/null)"
fact users "$(readlink /proc/self/ns/user)"
[ "$subject" = node ] || {
  fact arch "$(uname -m)" # the kernel's, which is also the image's, since its programs run
  fact system "$(. /etc/os-release 2>/dev/null && echo "$PRETTY_NAME")"
  # ssh is of the same version. sshd itself has had an option for it only since 9.3.
  PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
  pythons
  ! command -v sshd >/dev/null || fact sshd "$(ssh -V 2>&1 || echo "without ssh")"
}
