// SPDX-License-Identifier: Apache-2.0
// Empty: its compile options are those of the precompiled headers of all tests.
