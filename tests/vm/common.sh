# SPDX-License-Identifier: Apache-2.0
# What prepare and run share: messages, where the kernels lie.  Sourced by bash.

vm_cache=${OPAL_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/opal-vm}

complain() { printf '%s: %s\n' "tests/vm/${0##*/}" "$*" >&2; }

# skip REASON: what this machine lacks.  77 is "skipped" to ctest; OPAL_VM_REQUIRED=1 makes it a failure.
skip() {
  complain "needs vm: $*"
  if [ "${OPAL_VM_REQUIRED:-}" = 1 ]; then exit 1; fi
  exit 77
}
