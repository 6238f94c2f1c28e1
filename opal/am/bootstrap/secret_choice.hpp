// SPDX-License-Identifier: Apache-2.0
// opal/am/bootstrap/secret_choice.hpp — chooses the secret of a Context whose program supplies none (SECURITY.md): the
// file named by am_secret_file, no secret ("none"), or by default this user's file, which the first process creates.
// Threads: any.  Processes that create the user's file concurrently all get the same secret.
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

/// The text of the file that am_secret_file names; nullopt if the value is empty or kNoProofs.
/// Errors: those of Secret::read_file.
OPAL_EXPORT Result<std::optional<std::string>> named_secret_text(const std::string& secret_file);

/// The path of this user's secret file, in its configuration folder; empty if HOME and XDG_CONFIG_HOME are unset.
OPAL_EXPORT std::string user_secret_file();

struct SecretChoice {
  Secret secret;
  std::string source;  ///< for logs: the path of the file, or a description
  /// Why the user's file cannot be used.  Then the secret is random and known only to this process and its children.
  std::optional<Error> unshared;
};

/// Creates the user's file if it is missing and needed.  A failure there sets `unshared`.
/// Errors: those of Secret::read_file for the file that am_secret_file names.
OPAL_EXPORT Result<SecretChoice> choose_secret(const std::string& secret_file);

}  // namespace opal::am
