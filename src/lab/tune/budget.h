// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>

#include "lab/tune/choose.h"
#include "lab/tune/classes.h"
#include "lab/tune/held_out.h"
#include "lab/verify/loss.h"

namespace refx {

// The limits on errors, and the models to measure them with.
struct Budget {
  const TuneOptions& options;
  const std::vector<TransformationPtr>& all;
  Model original;  // the reference of the errors, on the device of the measurement
  Model start;     // the model to rewrite, on that device
  Model as_given;  // the same on its own device, for the acceptance test
  HeldOut inputs;
  std::function<void(const std::string& what)> progress;
};

// Chooses a trial for each site separately, so that the whole stays within the budget.
class BudgetedChoice {
 public:
  BudgetedChoice(Budget budget, std::vector<Class>& classes);

  // Sets the picks of the classes.
  void choose();
  // Whether a form is good enough on the inputs that are held out.
  bool proves(const Model& form, const Model& as_given);
  const WithinBudget& result() const { return result_; }

 private:
  struct Where {
    std::size_t of_class, site;
    int trial;
    std::size_t rank;  // among the candidates of its site
  };
  // A model in which the candidates of one rank are taken everywhere.
  struct Full {
    Picked picked;
    std::set<StepId> before;  // the steps that it begins with
  };

  void find_candidates();
  double gain_of(const Trial& trial) const;
  bool approximates(const Trial& trial) const;
  void make_full_models();
  void measure_errors();
  void pick(const Choice& choice);
  Model form_of(const Choice& choice);
  // On the inputs of the choice, or on those that are held out. Infinite if the form does not run.
  enum class On { choosing, proof };
  double error_of(const Model& form, On inputs) const;
  double error_alone(int position, On inputs);
  bool fits(const Choice& choice);
  void repair(Choice& choice);
  bool is_good(double error, const std::function<Model()>& as_given, Attempt& attempt);
  void explain(const Choice& choice);
  std::string why_left(std::size_t of_class) const;

  Budget budget_;
  std::vector<Class>& classes_;
  LossOf loss_;  // on the inputs of the choice, then those that are held out
  std::vector<Candidate> candidates_;
  std::vector<Where> where_;  // of each candidate
  std::size_t sites_ = 0;
  std::vector<Full> full_;            // by rank
  std::set<std::size_t> taken_back_;  // classes, by repair()
  WithinBudget result_;
};

}  // namespace refx
