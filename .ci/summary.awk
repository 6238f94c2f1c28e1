# SPDX-License-Identifier: Apache-2.0
# Reads a LastTest.log of ctest, which is to be given twice.  Prints the tests that were skipped, grouped by reason, then
# each that failed; writes "passed failed skipped" to the file `counts`.  A GoogleTest case counts as one test, any other ctest entry as one.
# `require`: comma separated words; a skip whose reason says "needs WORD" for one of them is a failure; "all" means any.

function is_required(reason,    i) {
  if (require == "all") return 1
  for (i = 1; i <= words; ++i) if (index(reason, "needs " word[i]) != 0) return 1
  return 0
}
# An entry of one case ends with its name.
function case_of(name) {
  return name == "" || substr(entry, length(entry) - length(name) + 1) == name ? entry : entry ": " name
}
function fail(text) { ++failed; ++failures; failed_text[failed] = text }
function skip(name, reason) {
  sub(/^ +/, "", reason)
  if (is_required(reason)) {
    fail(name ": is required, but was skipped: " reason)
    return
  }
  ++skipped
  if (!(reason in times)) { reasons[++groups] = reason; first[reason] = name }
  ++times[reason]
}

BEGIN { words = split(require, word, ",") }

# The log is read twice: of an entry that ran several times, the last time counts.
/^[0-9]+\/[0-9]+ Testing: / && NR == FNR { last_at[$3] = FNR; ++attempts[$3] }
NR == FNR { next }
/^[0-9]+\/[0-9]+ Testing: / { earlier = FNR != last_at[$3]; next }
earlier { next }

/^[0-9]+\/[0-9]+ Test: / { entry = $3; cases = failures = absent = ended = 0; running = last = took = ""; next }
/^Command: ""$/ && !ended { absent = 1 }
/^<end of output>$/ { ended = 1; next }
ended && /^Test time = / { took = $4; next }

# How the whole entry ended.
ended && /^Test Passed\.$/ && !absent { if (cases == 0) ++passed; next }
ended && /^Test Pass Reason:$/ { next }
ended && /^Required regular expression found/ { if (cases == 0) ++passed; next }
ended && /^Skip regular expression found/ { if (cases == 0) skip(entry, last); next }
ended && /^Test (Passed\.|Failed\.|Fail Reason:)$/ {
  # No case of it says so: a crash, a time-out, a leak, an absent program, or no GoogleTest program.
  if (failures == 0) fail(case_of(running) ": " (absent ? "program not found" : "failed outside of a check, after " took " s"))
  next
}

/^\[ RUN      \] / { reason = ""; running = $4; next }
/^\[       OK \] / { ++cases; ++passed; running = ""; next }
/^\[  FAILED  \] .*\([0-9]+ ms\)$/ { ++cases; sub(/,$/, "", $4); fail(case_of($4)); running = ""; next }
/^\[  SKIPPED \] .*\([0-9]+ ms\)$/ { ++cases; skip($4, reason); running = ""; next }
running != "" && !/: Skipped$/ { reason = reason " " $0; next }
!ended && NF { last = $0 }

END {
  for (i = 1; i <= groups; ++i) {
    reason = reasons[i]
    if (times[reason] == 1) printf "skipped  %s: %s\n", first[reason], reason
    else printf "skipped  %d x %s (first: %s)\n", times[reason], reason, first[reason]
  }
  for (entry in attempts) if (attempts[entry] > 1) printf "repeated %s\n", entry
  for (i = 1; i <= failed; ++i) printf "failed   %s\n", failed_text[i]
  printf "%d %d %d\n", passed, failed, skipped > counts
}
