// SPDX-License-Identifier: Apache-2.0
// opal/am/bootstrap/secret_choice.hpp — which secret the processes of a Context prove to each other: that of the file
// which am_secret_file names, none, or by default one of this user, in a file that the first process makes
// (SECURITY.md). Threads and processes: safe at the same time; all that make the user's file at once get the same
// secret.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::am {

/// The value of am_secret_file that turns proofs off.
inline constexpr std::string_view kNoProofs = "none";

/// The text of the file that am_secret_file names; nothing where the value is empty or kNoProofs.
/// Errors: those of Secret::read_file.
OPAL_EXPORT Result<std::optional<std::string>> named_secret_text(const std::string& secret_file);

/// The file of this user's secret, beside its configuration; empty where neither HOME nor XDG_CONFIG_HOME is set.
OPAL_EXPORT std::string user_secret_file();

struct SecretChoice {
  Secret secret;
  std::string source;  ///< for people: a file, or what else it is
  /// Set when no other process can have the secret, which then is random and of this process; the text says why.
  std::optional<Error> unshared;
};

/// The secret of a Context whose program gives none.  Makes the user's file if it is not there.
/// Errors: those of Secret::read_file for a file that am_secret_file names.
OPAL_EXPORT Result<SecretChoice> choose_secret(const std::string& secret_file);

}  // namespace opal::am
