# SPDX-License-Identifier: Apache-2.0
# Compares docs/mpi-coverage.md with what the table and the library say.  Variables: GENERATOR TABLE SYMBOLS DOCUMENT OUTPUT.
execute_process(COMMAND ${GENERATOR} coverage ${TABLE} ${OUTPUT} ${SYMBOLS} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND diff -u ${DOCUMENT} ${OUTPUT} RESULT_VARIABLE different)
if(different)
  message(FATAL_ERROR "docs/mpi-coverage.md is out of date: run 'cmake --build build --target mpi_coverage' and commit it")
endif()
