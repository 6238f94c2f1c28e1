# SPDX-License-Identifier: Apache-2.0
# The parts of the conformance suite, of this tree and of the installed package.
set(OPAL_CONFORMANCE_MODULES checkpoint ends hostile messages peers processes rdma)  # over modules, without a Context
set(OPAL_CONFORMANCE_CONTEXTS contexts fork)                                         # over Contexts
