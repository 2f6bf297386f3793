// SPDX-License-Identifier: Apache-2.0

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fake_source.h"
#include "kit.h"
#include "refx/inputs.h"

namespace refx {
namespace {

using c10::IValue;
using namespace testing;

class Values : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string bytes(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }

  ~Values() override { std::filesystem::remove_all(folder_); }

 private:
  std::string folder_ = [] {
    std::string name = ::testing::TempDir() + "refx_values_XXXXXX";
    return std::string(mkdtemp(name.data()));
  }();
};

TEST_F(Values, OfNoRegularFileAreAnErrorAtOnce) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string& odd : {path("pipe"), path(""), std::string("/dev/zero")})
    EXPECT_NE(error_of([&] { read_values(odd); }).find(odd + ": cannot be read (it is"),
              std::string::npos);
}

IValue sample() {
  c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
  dict.insert("mask", at::ones({2}, at::kBool));
  return c10::ivalue::Tuple::create(
      {c10::ivalue::Tuple::create({at::arange(6, at::kFloat).view({2, 3})}), dict});
}

// torch's own writer in C++, into memory.
std::string by_torch(const IValue& value) {
  const std::vector<char> bytes = torch::jit::pickle_save(value);
  return {bytes.begin(), bytes.end()};
}

void expect_sample(const IValue& value) {
  const std::vector<IValue> items = value.toTupleRef().elements().vec();
  EXPECT_TRUE(at::equal(items[0].toTupleRef().elements()[0].toTensor(),
                        at::arange(6, at::kFloat).view({2, 3})));
  EXPECT_TRUE(at::equal(items[1].toGenericDict().at("mask").toTensor(), at::ones({2}, at::kBool)));
}

TEST_F(Values, ReadsBackWhatItWrites) {
  write_values(path("a.pt"), sample());
  expect_sample(read_values(path("a.pt")));
  expect_sample(parse_values(bytes("a.pt")));
}

TEST_F(Values, TorchReadsWhatItWrites) {
  write_values(path("a.pt"), sample());
  const std::string data = bytes("a.pt");
  expect_sample(torch::jit::pickle_load({data.begin(), data.end()}));
}

TEST_F(Values, ReadsWhatTorchWrites) {
  const IValue value = c10::ivalue::Tuple::create({at::ones({2, 3}), IValue(3), IValue(2.5)});
  const IValue back = parse_values(by_torch(value));
  EXPECT_TRUE(at::equal(back.toTupleRef().elements()[0].toTensor(), at::ones({2, 3})));
  EXPECT_EQ(back.toTupleRef().elements()[1].toInt(), 3);
}

TEST_F(Values, TensorsOutliveTheFile) {
  write_values(path("a.pt"), at::arange(1000, at::kFloat));
  const at::Tensor tensor = read_values(path("a.pt")).toTensor();
  std::filesystem::remove(path("a.pt"));
  EXPECT_TRUE(at::equal(tensor, at::arange(1000, at::kFloat)));
  tensor.add_(1);
  EXPECT_EQ(tensor[0].item<float>(), 1);
}

TEST_F(Values, EveryDamagedByteOfDataIsDetected) {
  write_values(path("a.pt"), at::arange(16, at::kFloat));
  const std::string good = bytes("a.pt");
  const std::string needle(
      reinterpret_cast<const char*>(at::arange(16, at::kFloat).const_data_ptr()), 64);
  const std::size_t at = good.find(needle);
  ASSERT_NE(at, std::string::npos);
  for (std::size_t i = 0; i < 64; i += 7) {
    std::string bad = good;
    bad[at + i] = static_cast<char>(bad[at + i] ^ 4);
    EXPECT_NE(error_of([&] { parse_values(bad); }), "no error") << i;
  }
  for (std::size_t n = 0; n < good.size(); n += 37)
    EXPECT_NE(error_of([&] { parse_values(good.substr(0, n)); }), "no error") << n;
}

TEST_F(Values, SaysWhatTheFileIsAndWhatToDo) {
  EXPECT_NE(error_of([&] { read_values(path("none.pt")); }).find("cannot be opened"),
            std::string::npos);
  put("old.pt", std::string("\x80\x02\x8a\nl\xfc\x9c") + "F");
  const std::string old = error_of([&] { read_values(path("old.pt")); });
  EXPECT_NE(old.find("before 1.6"), std::string::npos) << old;
  EXPECT_NE(old.find("torch.save((x, y), path)"), std::string::npos) << old;
  EXPECT_EQ(old.find(path("old.pt")), 0u) << old;
  put("text.pt", "hello");
  EXPECT_NE(error_of([&] { read_values(path("text.pt")); }).find("not what torch.save writes"),
            std::string::npos);
  EXPECT_EQ(
      error_of([&] { parse_values("hello", "the sample inputs"); }).find("the sample inputs: "),
      0u);
}

TEST_F(Values, AFailedWriteLeavesTheOldFile) {
  write_values(path("a.pt"), sample());
  const std::string before = bytes("a.pt");
  EXPECT_NE(error_of([&] { write_values(path("a.pt"), at::ones({2}).to_sparse()); }), "no error");
  EXPECT_EQ(bytes("a.pt"), before);
  EXPECT_NE(error_of([&] { write_values(path("no/a.pt"), sample()); }), "no error");
}

constexpr const char* kModel = R"(graph():
    %x : f32[2, 3] [num_users=1] = placeholder[target=x]
    %mask : b8[2] [num_users=0] = placeholder[target=mask]
    return x)";

TEST_F(Values, SampleInputsComeFromTheFile) {
  write_values(path("a.pt"), sample());
  FakeSource source;
  source.in = versioned(tuple_spec({tuple_spec({kLeaf}), dict_spec({"mask"}, {kLeaf})}));
  source.samples = bytes("a.pt");
  const Model model = from_source(kModel, source);
  const auto samples = sample_inputs(model);
  ASSERT_TRUE(samples);
  EXPECT_TRUE(at::equal((*samples)[1].toTensor(), at::ones({2}, at::kBool)));
  EXPECT_EQ(inputs_for(model, "", 0).origin, "the file's sample inputs");
  EXPECT_EQ(inputs_for(model, path("a.pt"), 0).origin, "from " + path("a.pt"));
  source.samples = "";
  EXPECT_FALSE(sample_inputs(from_source(kModel, source)));
  EXPECT_EQ(inputs_for(from_source(kModel, source), "", 5).origin, "generated with seed 5");
}

TEST_F(Values, UnreadableSamplesAreAnErrorThatNamesTheRecord) {
  FakeSource source;
  source.samples = "junk";
  const Model model = from_source(kModel, source);
  const std::string error = error_of([&] { inputs_for(model, "", 0); });
  EXPECT_EQ(error.find("model.pt2: data/sample_inputs/model.pt: "), 0u) << error;
}

// For tests/python/test_values.py: reads one file and writes it again.
TEST(ValuesFile, Copies) {
  const char* from = std::getenv("REFX_VALUES_FROM");
  const char* to = std::getenv("REFX_VALUES_TO");
  if (!from || !to) GTEST_SKIP() << "no files given";
  const auto values = tensors_in(read_values(from));
  write_values(to, read_values(from));
  const auto again = tensors_in(read_values(to));
  ASSERT_EQ(again.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE(at::allclose(again[i], values[i], 0, 0, /*equal_nan=*/true)) << "tensor " << i;
}

}  // namespace
}  // namespace refx
