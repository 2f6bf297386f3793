// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lab/verify/witness.h"

namespace refx {

// A rewritten model, ready to run on many inputs. Refers to the model, which must outlive it.
struct PreparedForm {
  const Model& model;
  std::optional<Model> wide;  // in fp64
  std::string why_not_wide;
};

// Compares rewritten models with their original. Work that does not depend on the inputs
// (conversions to fp64, constants, which weights differ) is done once per model: prepare() it, then
// judge() it with each witness.
class Verifier {
 public:
  // `rewritten` is the model with all steps. Weights that it does not contain may have one rounding
  // error in the models with fewer steps, too.
  Verifier(const Model& original, const Model& rewritten)
      : original_(original_of_forms(original, rewritten, wide_forms_)) {}
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  const Original& original() const { return original_; }
  // `in_fp64`: prepares the fp64 run, too.
  PreparedForm prepare(const Model& form, bool in_fp64 = true) const;
  // Runs the model in its own dtype, and in fp64 unless it is lossy or the original has no fp64
  // run.
  std::vector<OutputCheck> judge(const Witness& witness, const PreparedForm& form,
                                 const Allowance& allowance = {}) const;

 private:
  mutable WideForms wide_forms_;
  const Original original_;
};

}  // namespace refx
