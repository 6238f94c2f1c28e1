# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=write_config_docs -DDOCUMENT=docs/config.md -P compare_docs.cmake: fails when the document is out of date.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE written RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM}: exit status ${status}")
endif()
file(READ ${DOCUMENT} committed)
if(NOT written STREQUAL committed)
  message(FATAL_ERROR "${DOCUMENT} differs from the variables in the code: cmake --build <build> --target config_docs")
endif()
