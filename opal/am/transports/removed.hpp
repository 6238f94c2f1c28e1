// SPDX-License-Identifier: Apache-2.0
// opal/am/transports/removed.hpp — transports of Open MPI that OPAL does not have, and what to use instead.  The
// reasons are in docs/design/removed-transports.md.  Constants.
#pragma once
#include <string_view>

namespace opal::am {

struct Removed {
  std::string_view name;     ///< as in Open MPI's `--mca btl NAME`
  std::string_view instead;  ///< the end of the sentence "NAME is not part of OPAL; ..."
};

inline constexpr Removed kRemoved[] = {
    {"mx", "Myrinet is no longer made; its cards in Ethernet mode are reached by tcp"},
    {"openib", "its hardware (InfiniBand, RoCE, iWARP) is reached by verbs"},
    {"scif", "its coprocessor (Xeon Phi, Knights Corner) is no longer made; processes of one host are reached by sm"},
    {"udapl", "its hardware (InfiniBand, RoCE, iWARP) is reached by verbs"},
    {"ugni", "Gemini and Aries are reached by tcp, their successor Slingshot by ofi"},
    {"usnic",
     "its hardware (Cisco VIC) is an Ethernet adapter and is reached by tcp, or by ofi if libfabric has a provider for "
     "it"},
    {"vader", "it is called sm now"},
};

}  // namespace opal::am
