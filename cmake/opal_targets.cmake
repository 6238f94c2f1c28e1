# SPDX-License-Identifier: Apache-2.0
# What every target of the project shares, and the functions that make libraries and tests.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)            # formatting of messages: std::format is not in g++ 12
find_package(nlohmann_json REQUIRED)  # --json output of the tools
find_package(CLI11 REQUIRED)          # command lines of the tools
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)        # topology and binding
pkg_check_modules(LIBEVENT REQUIRED IMPORTED_TARGET libevent)  # the daemon's event loop
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)  # proofs of a shared secret
pkg_check_modules(PMIX REQUIRED IMPORTED_TARGET pmix)          # process management interface (runtime only)

add_library(opal_options INTERFACE)
target_include_directories(opal_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}>)
target_compile_options(opal_options INTERFACE -Wall -Wextra $<$<BOOL:${OPAL_WERROR}>:-Werror>
                       $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety>)
if(NOT OPAL_SANITIZE)  # a sanitizer's symbols come with the program, not with the library
  target_link_options(opal_options INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>:-Wl,--no-undefined>)
endif()
if(OPAL_SANITIZE)
  target_compile_options(opal_options INTERFACE -fsanitize=${OPAL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(opal_options INTERFACE -fsanitize=${OPAL_SANITIZE})
  # Of clang's checks, these need a runtime that programs in C do not carry, and types that all libraries see.
  target_compile_options(opal_options INTERFACE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=vptr$<COMMA>function>)
endif()
if(OPAL_BUILD_FUZZERS)  # libraries tell the fuzzer which branches an input took
  target_compile_options(opal_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# For builds from nothing, as CI's: the sources of a batch parse the headers they share once.
option(OPAL_BATCH_BUILD "Compile the libraries' sources in batches: a whole build is quicker, a rebuild slower" OFF)
if(OPAL_BATCH_BUILD)
  # g++ takes every source of a batch for a header; and what it suspects of data flow depends on what it inlines.
  target_compile_options(opal_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage
                         -Wno-error=maybe-uninitialized -Wno-error=stringop-overflow -Wno-error=array-bounds>)
endif()

# opal_not_in_a_batch(TARGET SOURCE...): names local to these sources clash with those of another source of the target.
function(opal_not_in_a_batch target)
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES OPAL_NOT_IN_A_BATCH ON)
endfunction()

# opal_make_batches(TARGET...): replaces C++ sources by files that include 32 of them each.  CMake's own unity builds name
# the sources by absolute paths, so that a compiler cache compiles them anew in every clone; these do not.
function(opal_make_batches)
  foreach(target IN LISTS ARGN)
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    set(kept "")
    set(size 0)
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE OUTPUT_VARIABLE path)
      get_source_file_property(alone ${path} TARGET_DIRECTORY ${target} OPAL_NOT_IN_A_BATCH)
      get_source_file_property(options ${path} TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
      get_source_file_property(definitions ${path} TARGET_DIRECTORY ${target} COMPILE_DEFINITIONS)
      cmake_path(IS_PREFIX PROJECT_BINARY_DIR ${path} generated)
      if(alone OR options OR definitions OR generated OR NOT path MATCHES "[.]cpp$")
        list(APPEND kept ${path})
        continue()
      endif()
      cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      math(EXPR number "${size} / 32")
      string(APPEND batch_${number} "#include \"${path}\"\n")
      math(EXPR size "${size} + 1")
    endforeach()
    if(size GREATER 0)
      foreach(number RANGE ${number})
        set(file ${PROJECT_BINARY_DIR}/batches/${target}_${number}.cpp)
        file(CONFIGURE OUTPUT ${file} CONTENT "${batch_${number}}" @ONLY)
        unset(batch_${number})
        list(APPEND kept ${file})
      endforeach()
    endif()
    set_target_properties(${target} PROPERTIES SOURCES "${kept}")
  endforeach()
endfunction()

# opal_shared_library(NAME [DIR]): an empty shared library NAME; folders add their files with target_sources.
function(opal_shared_library name)
  add_library(${name} SHARED)
  target_link_libraries(${name} PRIVATE opal_options)
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${OPAL_SOVERSION}
                                           INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
endfunction()

# opal_btl_component(NAME SOURCES...): a transport in libopal, known to the registry as opal::btl::NAME::component().
function(opal_btl_component name)
  target_sources(opal PRIVATE ${ARGN})
  set_property(GLOBAL APPEND PROPERTY OPAL_BTL_COMPONENTS ${name})
endfunction()

# opal_absent_btl_component(NAME NEEDS): a transport that this build lacks, since it was built without NEEDS.  The registry knows
# it all the same, and it says what is missing.
function(opal_absent_btl_component name needs)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/absent_btl_component.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/absent.cpp @ONLY)
  opal_btl_component(${name} ${CMAKE_CURRENT_BINARY_DIR}/absent.cpp)
endfunction()

# opal_program(NAME SOURCES... ): an executable in bin/.
function(opal_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE opal_options)
endfunction()

# opal_test(NAME SOURCES f... [LIBS lib...] [TIMEOUT s] [LABELS l...] [ENVIRONMENT variable=value...]): a GoogleTest program, one
# ctest entry for each of its cases, which may take TIMEOUT each.
# Label multiproc: starts processes that keep two cores busy, with OPAL_RANKS_ENVIRONMENT.  Label timing: measures, and wants the machine alone.
# Label threads: has several threads, so that CI runs it under ThreadSanitizer; target opal_threads builds these.
function(opal_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE opal_options ${arg_LIBS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT name MATCHES "cost|perf|allocation")  # those measure
    target_link_libraries(${name} PRIVATE opal_test_options)
    if(TARGET opal_test_headers AND NOT arg_SOURCES MATCHES "[.]c(;|$)")
      target_precompile_headers(${name} REUSE_FROM opal_test_headers)
    endif()
  endif()
  if("threads" IN_LIST arg_LABELS)
    add_dependencies(opal_threads ${name})
  endif()
  math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * ${OPAL_SLOWER}")
  set(properties "TIMEOUT ${arg_TIMEOUT}")
  if("multiproc" IN_LIST arg_LABELS)
    list(PREPEND arg_ENVIRONMENT ${OPAL_RANKS_ENVIRONMENT})
    string(APPEND properties " PROCESSORS 2")
  else()
    list(PREPEND arg_ENVIRONMENT ${OPAL_TESTS_ENVIRONMENT})
  endif()
  if("timing" IN_LIST arg_LABELS)
    string(APPEND properties " RUN_SERIAL ON")
  endif()
  set(cases ${CMAKE_CURRENT_BINARY_DIR}/${name}_cases)
  file(GENERATE OUTPUT ${cases}.cmake CONTENT "include([[${PROJECT_SOURCE_DIR}/cmake/test_cases.cmake]])
opal_add_cases(${name} [[$<TARGET_FILE:${name}>]] [[${cases}.txt]] [[${arg_LABELS}]] [[${arg_ENVIRONMENT}]] ${properties})
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${cases}.cmake)
endfunction()

# opal_fuzzer(NAME SOURCES f... [LIBS lib...]): a libFuzzer target, built with OPAL_BUILD_FUZZERS.
function(opal_fuzzer name)
  if(NOT OPAL_BUILD_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE opal_options ${arg_LIBS} -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()
