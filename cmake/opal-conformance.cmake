# SPDX-License-Identifier: Apache-2.0
# opal_conformance(NAME SOURCES source... [LIBS target...] [TIMEOUT seconds]): the conformance suite over the transports
# of this project, as the programs NAME_modules and NAME_contexts and one ctest entry for each of their cases.  One of
# the sources defines opal::test::all_transports() (tests/harness/transports.hpp).  Needs GoogleTest.
include(${OPAL_CONFORMANCE_DIR}/tests/conformance/suite.cmake)

function(opal_conformance name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  find_package(GTest REQUIRED)
  include(GoogleTest)
  set(tests ${OPAL_CONFORMANCE_DIR}/tests)
  set(modules ${OPAL_CONFORMANCE_MODULES})
  list(TRANSFORM modules REPLACE ".+" "${tests}/conformance/\\0_test.cpp")
  set(contexts ${OPAL_CONFORMANCE_CONTEXTS})
  list(TRANSFORM contexts REPLACE ".+" "${tests}/conformance/\\0_test.cpp")
  add_executable(${name}_modules ${modules} ${tests}/conformance/side.cpp)
  add_executable(${name}_contexts ${contexts})
  foreach(program ${name}_modules ${name}_contexts)
    target_sources(${program} PRIVATE ${tests}/harness/child.cpp ${arg_SOURCES})
    target_include_directories(${program} PRIVATE ${OPAL_CONFORMANCE_DIR})
    target_link_libraries(${program} PRIVATE opal::opal ${arg_LIBS} GTest::gtest GTest::gtest_main)
    gtest_discover_tests(${program} TEST_PREFIX ${program}: DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT ${arg_TIMEOUT})
  endforeach()
endfunction()
