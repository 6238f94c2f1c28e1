# SPDX-License-Identifier: Apache-2.0
# What ./run, ./test and .ci/run share: messages, packages, building.  Sourced by bash in the root of the tree.

# What the build needs, and what ./test needs besides.
build_packages=(g++ cmake ninja-build pkg-config libhwloc-dev libevent-dev libpmix-dev libsodium-dev libfmt-dev
                libcli11-dev nlohmann-json3-dev libibverbs-dev librdmacm-dev
                libfabric-dev)
test_packages=(ccache libgtest-dev libgmock-dev gfortran binutils procps iproute2 file
               libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 libucx0)  # allocators, and hooks of others

cores=$(nproc)

say() { printf '\n==> %s  %s\n' "$(date +%H:%M:%S)" "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

is_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

# need_packages NAME...: installs those that are missing.  Nothing missing: no root and no network needed.
need_packages() {
  local package missing=() as_root=()
  command -v dpkg-query >/dev/null || { say "not a Debian system: expecting these to be here: $*"; return; }
  for package in "$@"; do is_installed "$package" || missing+=("$package"); done
  ((${#missing[@]})) || return 0
  say "installing ${missing[*]}"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null ||
      die "packages are missing; as root: apt-get install ${missing[*]}
./run and ./test together need: ${build_packages[*]} ${test_packages[*]}"
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300
             -o Acquire::Retries=3)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}

build_dir() { if [ "$1" = release ]; then echo build; else echo "build-$1"; fi; }

# configure PRESET [cmake option...].  A build tree that came from another place is made anew.
configure() {
  local preset=$1 fresh=() cache
  shift
  cache=$(build_dir "$preset")/CMakeCache.txt
  if [ -f "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$cache"; then fresh=(--fresh); fi
  if command -v ccache >/dev/null; then
    # What one clone compiled is there for the next one, but not tests: precompiled headers hold the path of their clone.
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
    export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  fi
  cmake --log-level=WARNING "${fresh[@]}" --preset "$preset" "$@"
}

# build PRESET [target...]: goes on after an error, so that one run shows them all.  It is nice: tests that
# run at the same time go first.
build() {
  local dir
  dir=$(build_dir "$1")
  shift
  NINJA_STATUS='[%f/%t %es] ' nice cmake --build "$dir" --parallel "$cores" ${1:+--target "$@"} -- -k 0
}
