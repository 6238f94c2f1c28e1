# SPDX-License-Identifier: Apache-2.0
# Read by ctest, not by the build: makes one entry PROGRAM:SUITE.CASE for each case of a GoogleTest program, so that a hang
# or a crash costs one case.  Two cases of one program do not run at the same time.

# opal_add_cases(NAME PROGRAM LIST LABELS ENVIRONMENT [PROPERTY VALUE]...): LIST is where the names of the cases are kept.
function(opal_add_cases name program list labels environment)
  if(NOT EXISTS "${list}" OR "${program}" IS_NEWER_THAN "${list}")
    execute_process(COMMAND "${program}" --gtest_list_tests OUTPUT_VARIABLE output RESULT_VARIABLE status TIMEOUT 60)
    if(NOT status EQUAL 0)  # not built, or does not start: one entry, which fails and shows why
      add_test(${name} "${program}")
      return()
    endif()
    file(WRITE "${list}" "${output}")
  endif()
  file(STRINGS "${list}" lines)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE " *#.*" "" line "${line}")  # a case's parameter
    if(line MATCHES "^  (.*)")
      set(case "${suite}${CMAKE_MATCH_1}")
      if(NOT case MATCHES "DISABLED_")
        add_test("${name}:${case}" "${program}" "--gtest_filter=${case}")
        set_tests_properties("${name}:${case}" PROPERTIES LABELS "${labels}" ENVIRONMENT "${environment}" RESOURCE_LOCK ${name}
                             SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\] 1 test, listed below" ${ARGN})
      endif()
    elseif(line MATCHES "^[^ ]+[.]$")
      set(suite "${line}")
    endif()
  endforeach()
endfunction()
