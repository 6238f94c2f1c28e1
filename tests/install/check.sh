#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh STEP BUILD_TREE: one step of the test of the installed tree.  `install` goes first: it installs, and then moves
# the whole tree, so that whatever remembers its old place fails.
set -eu
step=$1
build=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$build/install-test
prefix=$work/moved/prefix
export PATH="$prefix/bin:$PATH" CC="${CC:-cc}"
unset LD_LIBRARY_PATH

run() { echo "+ $*"; timeout 60 "$@"; }

case $step in
  install)
    rm -rf "$work"
    mkdir -p "$work/moved"
    cmake --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
    mv "$work/first" "$prefix"
    if grep -rIl "$work/first\|$build" "$prefix"; then
      echo "these name a place of the build"
      exit 1
    fi
    ;;
  cmake_package)
    cmake -S "$here/external" -B "$work/external" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" --log-level=WARNING
    cmake --build "$work/external"
    run "$work/external/cxx_user"
    run "$work/external/sim_user"
    run "$work/external/c_user"
    run "$work/external/mpi_user"
    run opalrun -n 2 "$work/external/mpi_user"
    run opalrun -n 2 "$work/external/job_user"
    ;;
  transport)  # a transport of another project: its program, and the installed conformance suite over it
    cmake -S "$here/../../docs/examples/transport" -B "$work/transport" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
          --log-level=WARNING
    cmake --build "$work/transport"
    # As a loadable component: the installed programs use it, and say why they do not.
    export OPAL_AM_COMPONENT_PATH="$work/transport/components"
    library=$work/transport/components/libunix_component.so
    run opal-info --all | tee "$work/info"
    grep -q "^  unix .*usable .*\[$library\]" "$work/info"
    grep -q "^  btl_unix_send_buffer " "$work/info"
    run opal-perf am_lat --btl unix --size 8 --iters 100
    run mpicc -o "$work/mpi_unix" "$here/external/mpi_user.c"
    run opalrun -n 2 --set am_transports=self,unix --set btl_unix_send_buffer=1M "$work/mpi_unix"
    if OPAL_BTL_UNIX_SEND_BUFFER=65M run opal-info; then
      echo "opal-info accepts a wrong value of the component's variable"
      exit 1
    fi
    mkdir -p "$work/broken"
    head -c 8192 "$library" >"$work/broken/short.so"
    OPAL_AM_COMPONENT_PATH="$work/broken" run opal-info | grep "$work/broken/short.so: truncated"
    unset OPAL_AM_COMPONENT_PATH
    ctest --test-dir "$work/transport" --output-on-failure --parallel 2
    ;;
  pkg_config)
    export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
    for name in opal opal-mpi; do
      [ "$(pkg-config --modversion $name)" = "$(pkg-config --modversion opal-runtime)" ]
    done
    $CC -o "$work/c_pkg" "$here/external/c_user.c" $(pkg-config --cflags --libs opal)
    LD_LIBRARY_PATH="$prefix/lib" run "$work/c_pkg"
    c++ -std=c++20 -o "$work/sim_pkg" "$here/external/sim_user.cpp" $(pkg-config --cflags --libs opal-sim opal)
    LD_LIBRARY_PATH="$prefix/lib" run "$work/sim_pkg"
    $CC -o "$work/mpi_pkg" "$here/external/mpi_user.c" $(pkg-config --cflags --libs opal-mpi)
    LD_LIBRARY_PATH="$prefix/lib" run "$work/mpi_pkg"
    c++ -std=c++20 -o "$work/job_pkg" "$here/external/job_user.cpp" $(pkg-config --cflags --libs opal-runtime opal)
    LD_LIBRARY_PATH="$prefix/lib" run opalrun -n 2 "$work/job_pkg"
    ;;
  mpicc)
    run mpicc -o "$work/mpi_wrapped" "$here/external/mpi_user.c"
    run "$work/mpi_wrapped"
    run mpirun -n 2 "$work/mpi_wrapped"
    ;;
  readme)  # the first programs of README.md, word for word; one in C++ talks to one in C
    block() { sed -n '/^```'"$1"'$/,/^```$/{/^```/!p}' "$here/../../README.md"; }
    block cpp >"$work/hello.cpp"
    block c >"$work/hello.c"
    export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" LD_LIBRARY_PATH="$prefix/lib"
    c++ -std=c++20 -Wall -Wextra -Werror "$work/hello.cpp" -o "$work/hello_cxx" $(pkg-config --cflags --libs opal)
    $CC -Wall -Wextra -Werror "$work/hello.c" -o "$work/hello_c" $(pkg-config --cflags --libs opal)
    port=$((20000 + $$ % 12000))
    for pair in "hello_cxx hello_c" "hello_c hello_cxx"; do
      port=$((port + 1))
      timeout 60 "$work/${pair% *}" listen "127.0.0.1:$port" >"$work/heard" &
      listener=$!
      run "$work/${pair#* }" connect "127.0.0.1:$port" | tee "$work/answered"
      wait $listener
      grep -q 'got "hello"' "$work/heard"
      grep -q 'got "hello to you"' "$work/answered"
    done
    ;;
  programs)
    run opal-info >"$work/info"
    grep -q "sm" "$work/info"
    run mpirun -n 2 true
    run mpiexec -np 2 true
    run opal-perf am_lat --btl tcp --size 8 --iters 100
    ;;
  *)
    echo "unknown step $step"
    exit 2
    ;;
esac
