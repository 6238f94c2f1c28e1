// SPDX-License-Identifier: Apache-2.0
// tests/campaign/fault_job.hpp — runs a job of the fault campaign, in which a process acts at a step.
#pragma once
#include <sys/types.h>

#include <iosfwd>
#include <string>
#include <vector>

#include "tests/campaign/steps.hpp"
#include "tests/runtime/launched_job.hpp"

namespace opal::campaign {

struct Result {
  runtime::test::Outcome outcome;
  std::string leftovers;
  pid_t visited = 0;  ///< the process that reached the step, as its host numbers it; 0: none did
  double seconds = 0;
};

/// Where a job runs; as it is made: on this host.
struct Place {
  std::vector<std::string> prefix;   ///< words before the command
  std::vector<std::string> options;  ///< of opalrun
  std::string input;                 ///< its stdin
};

/// Runs the job with a fail point; a process that stops there is continued once it is seen to be stopped.
/// `action`: of fail_point.cpp.  `only`: NAME=VALUE that picks the process.  `mode`: one more option of opalrun, or "".
/// The job is bounded: opalrun ends a longer one with status 124.
Result run(const Step& step, const std::string& action, const std::string& only, const std::string& mode = {},
           const Place& place = {});

int count(const std::string& text, const std::string& word);

/// Appends a row of the table to the file that CAMPAIGN_TABLE names, if it names one.
void add_row(const Step& step, const std::string& action, const std::string& side, const Result& result);

/// For the name of a test.
std::string name_of(const Step& step);

/// For the message of a failed case.
void PrintTo(const Step& step, std::ostream* out);

}  // namespace opal::campaign
