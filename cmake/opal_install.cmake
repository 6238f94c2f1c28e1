# SPDX-License-Identifier: Apache-2.0
# Installation rules: libraries, headers, programs, the CMake package and the pkg-config files.
