// SPDX-License-Identifier: Apache-2.0
// unix_transport.hpp — a transport outside OPAL's tree: messages between the processes of one host through AF_UNIX
// sockets that keep message borders.  Everything else, as put, get and atomics, comes from
// opal::btl::ConnectedTransport.
#pragma once
#include "opal/btl/component.hpp"

namespace example {

/// For opal::btl::Registry::add() and for the record of a loadable component (component.cpp).
extern const opal::btl::Component kUnixComponent;

}  // namespace example
