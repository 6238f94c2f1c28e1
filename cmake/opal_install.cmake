# SPDX-License-Identifier: Apache-2.0
# Installation rules: libraries, public headers, programs, the CMake package and the pkg-config files.
# The installed tree may be moved as a whole: everything in it finds the rest relative to itself.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/opal)
file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})

# Libraries; libmpi_abi and its headers install themselves (mpi_shim/abi).
set_target_properties(opal_runtime PROPERTIES EXPORT_NAME runtime)
set_target_properties(opal_sim PROPERTIES EXPORT_NAME sim)
install(TARGETS opal opal_sim opal_runtime EXPORT opal LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# Public headers: those directly in a framework's folder and in the folders named here, but for the framework's own
# insides; and all that they include.
set(private_headers am/state mpool/mapped_pool)
file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR}/opal CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/opal/capi/opal.h ${PROJECT_SOURCE_DIR}/opal/core/clock.hpp
     ${PROJECT_SOURCE_DIR}/opal/core/sanitizer.hpp ${PROJECT_SOURCE_DIR}/opal/core/system/fd.hpp
     ${PROJECT_SOURCE_DIR}/opal/core/system/mapping.hpp
     ${PROJECT_SOURCE_DIR}/opal/allocator/*.hpp ${PROJECT_SOURCE_DIR}/opal/am/*.hpp
     ${PROJECT_SOURCE_DIR}/opal/am/memory/*.hpp ${PROJECT_SOURCE_DIR}/opal/btl/*.hpp
     ${PROJECT_SOURCE_DIR}/opal/btl/shared/connected_transport.hpp
     ${PROJECT_SOURCE_DIR}/opal/btl/shared/registrations/registration_table.hpp
     ${PROJECT_SOURCE_DIR}/opal/core/sync/backlog.hpp ${PROJECT_SOURCE_DIR}/opal/gpu/memory.hpp
     ${PROJECT_SOURCE_DIR}/opal/memory/events/*.hpp ${PROJECT_SOURCE_DIR}/opal/mpool/*.hpp
     ${PROJECT_SOURCE_DIR}/opal/rcache/*.hpp)
list(TRANSFORM private_headers APPEND .hpp)
list(REMOVE_ITEM headers ${private_headers})
set(position 0)
list(LENGTH headers count)
while(position LESS count)
  list(GET headers ${position} header)
  file(STRINGS ${PROJECT_SOURCE_DIR}/opal/${header} includes REGEX "^#include \"opal/")
  list(TRANSFORM includes REPLACE "^#include \"opal/([^\"]*)\".*" "\\1")
  list(APPEND headers ${includes})
  list(REMOVE_DUPLICATES headers)
  list(LENGTH headers count)
  math(EXPR position "${position} + 1")
endwhile()
foreach(header IN LISTS headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/opal/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/opal/${folder})
endforeach()

# The simulated fabric: the headers that a program which drives it includes.
foreach(header component config fabric node packet random)
  install(FILES ${PROJECT_SOURCE_DIR}/opal/btl/sim/${header}.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/opal/btl/sim)
endforeach()

# Programs; opal-info and the compiler wrappers install themselves.
set_target_properties(opalrun opald opal-perf opal-info PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
if(bin_to_lib STREQUAL "../lib")  # as in the build tree, whose run paths then need no room for another
  set_target_properties(opalrun opald opal-perf opal-info PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
endif()
install(TARGETS opalrun opald opal-perf RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/installed)
foreach(name mpirun mpiexec)
  file(CREATE_LINK opalrun ${CMAKE_CURRENT_BINARY_DIR}/installed/${name} SYMBOLIC)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/installed/${name} DESTINATION ${CMAKE_INSTALL_BINDIR})
endforeach()

# The conformance suite, as sources: a project compiles it with its own GoogleTest.
include(tests/conformance/suite.cmake)
set(conformance_dir ${CMAKE_INSTALL_DATADIR}/opal/conformance)
list(TRANSFORM OPAL_CONFORMANCE_MODULES APPEND _test.cpp OUTPUT_VARIABLE suite)
list(TRANSFORM OPAL_CONFORMANCE_CONTEXTS APPEND _test.cpp OUTPUT_VARIABLE contexts)
foreach(file IN LISTS suite contexts ITEMS side.cpp side.hpp suite.cmake)
  install(FILES tests/conformance/${file} DESTINATION ${conformance_dir}/tests/conformance)
endforeach()
install(FILES tests/am/pair.hpp DESTINATION ${conformance_dir}/tests/am)
install(FILES tests/harness/child.cpp tests/harness/child.hpp tests/harness/in_child.hpp tests/harness/process.hpp
              tests/harness/transports.hpp
        DESTINATION ${conformance_dir}/tests/harness)

# find_package(opal): targets opal::opal, opal::sim, opal::runtime, opal::mpi_abi.
install(EXPORT opal NAMESPACE opal:: FILE opal-targets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/opal-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/opal-config.cmake
                              INSTALL_DESTINATION ${package_dir} PATH_VARS conformance_dir)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/opal-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/opal-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/opal-config-version.cmake
              cmake/opal-conformance.cmake
        DESTINATION ${package_dir})

# pkg-config: opal, opal-runtime, opal-mpi.
file(RELATIVE_PATH pkgconfig_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
function(opal_pkgconfig name description library requires)
  configure_file(cmake/opal.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
opal_pkgconfig(opal "${PROJECT_DESCRIPTION}" opal "")
opal_pkgconfig(opal-sim "A simulated fabric that tests protocols over OPAL's active messages" opal_sim opal)
opal_pkgconfig(opal-runtime "OPAL in a job: the rank of a process, and exchange of small data between ranks" opal_runtime opal)
opal_pkgconfig(opal-mpi "MPI 5.0, standard ABI, over OPAL" mpi_abi "")
