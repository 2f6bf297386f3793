// SPDX-License-Identifier: Apache-2.0

// Originals that leave a model and come back. The whole, over files of torch and of strangers, is
// in tests/python/test_detach.py.

#include "refx/detach.h"

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kit.h"
#include "pt2/small_file.h"
#include "refx/editor.h"
#include "refx/original.h"
#include "refx/pt2.h"
#include "refx/reverse.h"
#include "refx/text.h"

namespace refx::testing {
namespace {

namespace fs = std::filesystem;

class Detach : public SmallFile {};

TEST_F(Detach, OriginalsComeBackAfterAFile) {
  Model model = rewritten();
  const auto left = detach(model);
  ASSERT_FALSE(left.empty());
  save(model, file("slim.pt2"));

  Model slim = load(file("slim.pt2"));
  EXPECT_EQ(content(slim), content(model));
  ASSERT_EQ(detached(slim).size(), left.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(detached(slim)[i].name, left[i].name);
    EXPECT_EQ(detached(slim)[i].bytes, left[i].bytes);
  }
  save(slim, file("again.pt2"));
  EXPECT_EQ(read_file(file("again.pt2")), read_file(file("slim.pt2")));

  const std::string error = error_of([&] { reverse_all(slim); });
  EXPECT_NE(error.find("was detached"), error.npos) << error;
  EXPECT_EQ(content(slim), content(model));
  EXPECT_EQ(slim.history().size(), model.history().size());

  for (Model* each : {&slim, &model}) {
    attach(*each, file("small.pt2"));
    EXPECT_TRUE(detached(*each).empty());
    save(*each, file("fast.pt2"));
    reverse_all(*each);
    EXPECT_TRUE(is_proven_original(*each));
    save(*each, file("back.pt2"));
    EXPECT_EQ(read_file(file("back.pt2")), read_file(file("small.pt2")));
  }
  save(rewritten(), file("full.pt2"));
  EXPECT_EQ(read_file(file("fast.pt2")), read_file(file("full.pt2")));
}

TEST_F(Detach, AnOldFileIsReversed) {
  const std::string base = "tests/data/pt2/convolutions.pt2";
  Model model = load("tests/data/pt2/convolutions.slim.pt2");
  EXPECT_FALSE(detached(model).empty());
  attach(model, base);
  reverse_all(model);
  save(model, file("back.pt2"));
  EXPECT_TRUE(read_file(file("back.pt2")) == read_file(base));
}

TEST_F(Detach, ACopyKeepsItsOwn) {
  Model model = rewritten();
  Model copy = model;
  detach(model);
  EXPECT_TRUE(detached(copy).empty());
  reverse_all(copy);
  save(copy, file("back.pt2"));
  EXPECT_EQ(read_file(file("back.pt2")), read_file(file("small.pt2")));
}

TEST_F(Detach, EachStepThatIsAvailableIsReversed) {
  Model model = rewritten();
  detach(model);
  for (StepId id : model.history().ids()) {
    Model copy = model;
    const std::string before = content(copy);
    const ReversalPlan plan = plan_reversal(copy, {id});
    bool needs = !detached(copy.history()[id]).empty();
    for (const auto& [other, causes] : plan.dependents)
      needs |= !detached(copy.history()[other]).empty();
    if (needs) {
      const std::string error = error_of([&] { reverse(copy, plan); });
      EXPECT_NE(error.find("was detached"), error.npos) << error;
      EXPECT_EQ(content(copy), before);
      attach(copy, plan, file("small.pt2"));
    }
    reverse(copy, plan);
  }
}

TEST_F(Detach, TheOriginalIsThereAsAGraph) {
  Model model = rewritten();
  detach(model);
  const Model original = original_of(model);
  EXPECT_EQ(original.graph().size(), load(file("small.pt2")).graph().size());
  EXPECT_NE(error_of([&] { save(original, file("x.pt2")); }).find("was detached"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(file("x.pt2")));
}

TEST_F(Detach, WhatWasTrainedIsCarriedBackWithTheOriginals) {
  Model model = load(file("small.pt2"));
  find_transformation("merge-linears")(model);
  const Piece piece = model.history().back().pieces.front();
  const std::string name = load(file("small.pt2")).state()[piece.part].name;
  at::Tensor(model.state().tensor(piece.whole)).detach().mul_(2);
  const at::Tensor now = at::Tensor(model.state().tensor(piece.whole))
                             .detach()
                             .narrow(piece.dim, piece.start, piece.length)
                             .clone();
  EXPECT_FALSE(detach(model).empty());  // they are no parts of it any more
  save(model, file("slim.pt2"));
  Model slim = load(file("slim.pt2"));
  EXPECT_NE(error_of([&] { reverse_all(slim); }).find("was detached"), std::string::npos);
  attach(slim, file("small.pt2"));
  reverse_all(slim);
  EXPECT_TRUE(at::Tensor(slim.state().tensor(slim.state().find(name))).detach().equal(now));
}

TEST_F(Detach, AModelThatWasTrainedElsewhereIsSaved) {
  Model model = rewritten();
  for (StateId id : model.state())
    if (at::Tensor tensor(model.state().tensor(id)); tensor.is_floating_point())
      if (load(file("small.pt2")).state().find(model.state()[id].name)) tensor.detach().add_(1);
  const std::size_t left = detach(model).size();
  save(model, file("slim.pt2"));
  Model slim = load(file("slim.pt2"));
  EXPECT_EQ(content(slim), content(model));
  EXPECT_EQ(detached(slim).size(), left);
  attach(slim, file("small.pt2"));
  reverse_all(slim, {.discard_changes = true});
  EXPECT_FALSE(is_original(slim));
  save(slim, file("back.pt2"));
  EXPECT_EQ(content(load(file("back.pt2"))), content(slim));
}

TEST_F(Detach, WhatWasTrainedBeforeIsNotTheFiles) {
  Model model = load(file("small.pt2"));
  const Model later = rewritten();
  for (StateId id : model.state())  // only what is going to be replaced
    if (at::Tensor tensor(model.state().tensor(id)); tensor.is_floating_point())
      if (!later.state().contains(id)) tensor.detach().mul_(1.5);
  save(model, file("trained.pt2"));
  for (const auto& transformation : registry()) (*transformation)(model);
  ASSERT_FALSE(detach(model).empty());
  save(model, file("slim.pt2"));
  for (Model slim : {load(file("slim.pt2")), model}) {
    const std::string error = error_of([&] { attach(slim, file("small.pt2")); });
    EXPECT_NE(error.find("its values differ"), error.npos) << error;
    attach(slim, file("trained.pt2"));
    reverse_all(slim);
    EXPECT_FALSE(is_original(slim));
    EXPECT_EQ(content(slim), content(load(file("trained.pt2"))));
  }
}

// ---- models in memory ---------------------------------------------------------------------------

void write_safetensors(const std::string& path, const std::string& name, const at::Tensor& tensor) {
  const std::string header = "{\"" + name + "\": {\"dtype\": \"F32\", \"shape\": [" +
                             std::to_string(tensor.size(0)) + ", " +
                             std::to_string(tensor.size(1)) + "], \"data_offsets\": [0, " +
                             std::to_string(tensor.nbytes()) + "]}}";
  const std::uint64_t size = header.size();
  const at::Tensor dense = tensor.contiguous();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), 8) << header;
  out.write(static_cast<const char*>(dense.const_data_ptr()), static_cast<long>(dense.nbytes()));
}

TEST(DetachInMemory, TiedTensorsStayTied) {
  Model model = parse(R"(
parameter a : f32[2, 3]
parameter b : f32[3, 2]
graph():
    %x : f32[2, 3] = placeholder[target=x]
    return x
)");
  const at::Tensor values = at::arange(6, at::dtype(at::kFloat)).reshape({2, 3});
  {
    Editor editor(model);
    editor.set_state(model.state().find("a"), values);
    editor.set_state(model.state().find("b"), values.t());
    editor.commit_without_step();
  }
  const std::string before = content(model);
  {
    Editor editor(model);
    editor.set_state(model.state().find("a"), at::ones({2, 3}));
    editor.set_state(model.state().find("b"), at::ones({3, 2}));
    editor.commit({"ones", "ones", "a", {}});
  }
  const auto left = detach(model);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left.front().bytes, 24u);
  EXPECT_EQ(model.history().back().bytes(), 0u);
  EXPECT_EQ(detached(model.history().back()).size(), 1u);

  const Folder folder;
  for (const char* name : {"a", "b"}) {  // one of them is enough, whichever
    Model copy = model;
    const std::string base = folder / "base.safetensors";
    write_safetensors(base, name, (*name == 'a' ? values : values.t()).add(1));
    EXPECT_EQ(error_of([&] { attach(copy, base); }),
              base + " does not have the original of 'a': its values differ");
    EXPECT_EQ(detached(copy).size(), 1u);
    write_safetensors(base, name, *name == 'a' ? values : values.t());
    attach(copy, base);
    reverse_all(copy);
    EXPECT_EQ(content(copy), before);
    const State& state = copy.state();
    EXPECT_EQ(state.storage_sharers(state.find("a")), 2u);
    EXPECT_EQ(state.tensor(state.find("b")).strides(), values.t().strides());
  }
}

}  // namespace
}  // namespace refx::testing
