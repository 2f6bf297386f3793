// SPDX-License-Identifier: Apache-2.0

#include "random_moves.h"

#include "kit.h"
#include "random_model.h"
#include "refx/verify.h"

namespace refx::testing {

namespace {

// Something that is done to a model. Lower numbers are plainer, as in a Recipe.
struct Move {
  int what = 0, which = 0, policy = 0, redo = 0;
};
std::ostream& operator<<(std::ostream& out, const Move& move) {
  return out << move.what << ' ' << move.which << ' ' << move.policy << ' ' << move.redo;
}

rc::Gen<std::vector<Move>> any_moves() {
  using rc::gen::set;
  const auto n = any_number();
  return up_to(12, rc::gen::build<Move>(set(&Move::what, n), set(&Move::which, n),
                                        set(&Move::policy, n), set(&Move::redo, n)));
}

int moves = 0;

std::string reverse_one(Model& model, const Move& move) {
  ++moves;
  const auto live = model.history().ids();
  const StepId id = live[live.size() - 1 - static_cast<std::size_t>(move.which) % live.size()];
  const auto policy = move.policy % 2 == 0 ? Dependents::reapply : Dependents::cascade;
  reverse(model, id, {.dependents = policy, .discard_changes = false});
  return "reverse " + std::to_string(id.value) +
         (policy == Dependents::cascade ? " with its dependents" : "");
}

std::string move_on(Model& model, const Move& move) {
  if (move.what % 3 == 2 && !model.history().empty()) {
    const std::string done = reverse_one(model, move);
    return move.redo % 4 == 3 && redo(model) ? done + ", redo" : done;
  }
  ++moves;
  const auto& transformation = registry()[static_cast<std::size_t>(move.which) % registry().size()];
  (*transformation)(model);
  return transformation->name();
}

Model without_lossy_steps(Model model) {
  std::vector<StepId> lossy;
  for (const Step& step : model.history())
    if (is_lossy(step)) lossy.push_back(step.id);
  reverse(model, lossy, {.dependents = Dependents::cascade, .discard_changes = false});
  return model;
}

}  // namespace

int moves_made() { return moves; }

void ends_where_it_started() {
  const Recipe recipe = *any_recipe();
  const std::vector<Move> moves = *any_moves(), way_back = *any_moves();
  const Model original = make_model(recipe);
  const std::string start = snapshot(original);
  RC_LOG() << print(original);
  Model model = original;
  for (const Move& move : moves) {
    RC_LOG() << move_on(model, move) << std::endl;
    validate(model);
  }
  expect_same_results(original, without_lossy_steps(model), random_inputs(original, recipe.seed));
  for (std::size_t i = 0; !model.history().empty(); ++i) {
    RC_ASSERT(i < 500u);
    RC_LOG() << reverse_one(model, i < way_back.size() ? way_back[i] : Move()) << std::endl;
    validate(model);
  }
  EXPECT_EQ(snapshot(model), start);
}

}  // namespace refx::testing
