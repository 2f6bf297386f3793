// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lab/verify/witness.h"

namespace refx {

// A form of an original, ready to run on many inputs. Refers to the model that it was made of.
struct PreparedForm {
  const Model& model;
  std::optional<Model> wide;  // in fp64
  std::string why_not_wide;
};

// Compares forms of an original with it. What does not depend on the inputs (conversions to fp64,
// constants, the weights that differ) is done once: a form is prepared, and judged on as many
// witnesses as there are.
class Verifier {
 public:
  // `rewritten` is the form with all steps: the weights that it does not have may be off by a
  // rounding in others, too.
  Verifier(const Model& original, const Model& rewritten)
      : original_(original_of_forms(original, rewritten, wide_forms_)) {}
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  const Original& original() const { return original_; }
  // `in_fp64`: it will be judged there, too.
  PreparedForm prepare(const Model& form, bool in_fp64 = true) const;
  // Runs the form as it is, and in fp64 unless it is lossy or the original does not run there.
  std::vector<OutputCheck> judge(const Witness& witness, const PreparedForm& form,
                                 const Allowance& allowance = {}) const;

 private:
  mutable WideForms wide_forms_;
  const Original original_;
};

}  // namespace refx
