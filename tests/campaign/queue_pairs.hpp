// SPDX-License-Identifier: Apache-2.0
// tests/campaign/queue_pairs.hpp — cuts what an RDMA transport has connected.
#pragma once

/// Moves every queue pair of the process to the error state.  Called where a step begins, inside a signal handler.
void cut_queue_pairs() noexcept;
