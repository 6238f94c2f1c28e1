# SPDX-License-Identifier: Apache-2.0
# Reads a LastTest.log of ctest.  Prints every test that was skipped, and why, and every one that failed; writes
# "passed failed skipped" to the file `counts`.  A GoogleTest case counts as one test, any other ctest entry as one (those
# cannot be skipped: the log does not tell).
# `require`: comma separated words; a skip whose reason says "needs WORD" for one of them is a failure; "all" means any.

function is_required(reason,    i) {
  if (require == "all") return 1
  for (i = 1; i <= words; ++i) if (index(reason, "needs " word[i]) != 0) return 1
  return 0
}

BEGIN { words = split(require, word, ",") }

/^[0-9]+\/[0-9]+ Test: / { entry = $3; cases = failures = lost = 0; running = ""; next }

# How the whole entry ended.
/^Command: ""$/ { lost = 1 }
/^Test Passed\.$/ && !lost { if (cases == 0) ++passed; next }
/^Test (Passed|Failed|Timeout|.*Exception)/ && !/^Test time/ {
  if (failures == 0) {  # no case of it says so: a crash, a time-out, not there, or not a GoogleTest program
    ++failed
    printf "failed   %s%s: %s\n", entry, running != "" ? ", in " running : "", lost ? "program not found" : $0
  }
  next
}

/^\[ RUN      \] / { reason = ""; running = $4; next }
/^\[       OK \] / { ++cases; ++passed; running = ""; next }
/^\[  FAILED  \] .*\([0-9]+ ms\)$/ {
  ++cases; ++failures; ++failed; running = ""
  printf "failed   %s: %s\n", entry, $4
  next
}
/^\[  SKIPPED \] .*\([0-9]+ ms\)$/ {
  ++cases; running = ""
  sub(/^ +/, "", reason)
  if (is_required(reason)) {
    ++failures; ++failed
    printf "failed   %s: %s is required, but was skipped: %s\n", entry, $4, reason
  } else {
    ++skipped
    printf "skipped  %s: %s\n", $4, reason
  }
  next
}
running != "" && !/: Skipped$/ { reason = reason " " $0; next }

END { printf "%d %d %d\n", passed, failed, skipped > counts }
