// SPDX-License-Identifier: Apache-2.0

#include "lab/verify/verifier.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include "refx/error.h"
#include "util/first_line.h"

namespace refx {

PreparedForm Verifier::prepare(const Model& form, bool in_fp64) const {
  PreparedForm prepared{form, {}, {}};
  if (!in_fp64 || !original_.wide) return prepared;
  try {
    prepared.wide = wide_forms_.of(form);
  } catch (const Error& error) {
    prepared.why_not_wide = error.what();
  } catch (const c10::Error& error) {
    prepared.why_not_wide = first_line(error.what_without_backtrace());
  }
  return prepared;
}

std::vector<OutputCheck> Verifier::judge(const Witness& witness, const PreparedForm& form,
                                         const Allowance& allowance) const {
  const std::vector<Run> runs = witness.run(form.model);
  if (!witness.evidence(0).wide || allowance.lossy)
    return witness.judge_calls(runs, nullptr, allowance);
  std::string why_not = form.why_not_wide;
  if (form.wide) try {
      const std::vector<Run> wide = witness.run_in_fp64(*form.wide);
      return witness.judge_calls(runs, &wide, allowance);
    } catch (const Error& error) {  // then the outputs are judged in their own dtype only
      why_not = error.what();
    }
  return witness.judge_calls(runs, nullptr, allowance, why_not);
}

}  // namespace refx
