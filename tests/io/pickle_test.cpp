// SPDX-License-Identifier: Apache-2.0

#include "io/pickle.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "kit.h"

namespace refx {
namespace {

using c10::IValue;
using namespace std::string_literals;
using testing::error_of;

c10::Storage floats(std::int64_t n) { return at::arange(n, at::kFloat).storage(); }

IValue read(const std::string& pickle) {
  return read_pickle(pickle, [](const std::string& key) {
    if (key != "0") throw Error("no record 'data/" + key + "'");
    return floats(6);
  });
}
std::string refusal(const std::string& pickle) {
  return error_of([&] { read(pickle); });
}

std::string name(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string text(const std::string& s) {
  return "X" + std::string(1, static_cast<char>(s.size())) + "\0\0\0"s + s;
}
std::string number(int n) { return "K" + std::string(1, static_cast<char>(n)); }
std::string storage(const std::string& key, int elements) {
  return "(" + text("storage") + name("torch", "FloatStorage") + text(key) + text("cpu") +
         number(elements) + "tQ";
}
std::string tensor(int offset, int size, int stride, int elements = 6) {
  return name("torch._utils", "_rebuild_tensor_v2") + "(" + storage("0", elements) +
         number(offset) + number(size) + "\x85" + number(stride) + "\x85\x89}tR";
}

TEST(Pickle, ReadsNumbersAndTextInContainers) {
  const IValue value = read("\x80\x02(" + number(7) + "\x88N" + text("hi") + "](" + number(1) +
                            number(2) + "e}" + text("k") + number(3) + "st.");
  ASSERT_TRUE(value.isTuple());
  const std::vector<IValue> items = value.toTupleRef().elements().vec();
  ASSERT_EQ(items.size(), 6u);
  EXPECT_EQ(items[0].toInt(), 7);
  EXPECT_TRUE(items[1].toBool());
  EXPECT_TRUE(items[2].isNone());
  EXPECT_EQ(items[3].toStringRef(), "hi");
  EXPECT_EQ(items[4].toListRef()[1].toInt(), 2);
  EXPECT_EQ(items[5].toGenericDict().at("k").toInt(), 3);
}

TEST(Pickle, ReadsLongsOfEveryLengthWithTheirSign) {
  EXPECT_EQ(read("\x8a\x00."s).toInt(), 0);
  EXPECT_EQ(read("\x8a\x01\xff.").toInt(), -1);
  EXPECT_EQ(read("\x8a\x02\xff\x00."s).toInt(), 255);
  EXPECT_EQ(read("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."s).toInt(),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(refusal("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."s),
            "it contains an integer of more than 64 bits");
}

TEST(Pickle, ReadsTensorsThatShareAStorage) {
  const IValue value = read(tensor(1, 2, 2) + ".");
  EXPECT_TRUE(at::equal(value.toTensor(), at::tensor({1.f, 3.f})));
}

TEST(Pickle, KeepsWhatAnOrderedDictHolds) {
  const IValue value =
      read(name("collections", "OrderedDict") + ")R(" + text("a") + number(1) + "u.");
  EXPECT_EQ(value.toGenericDict().at("a").toInt(), 1);
}

// Nothing of the class is run: what it holds is what the pickle says.
TEST(Pickle, ReadsObjectsByTheirAttributes) {
  const std::string layer = name("lib", "Layer") + ")\x81}(" + text("keys") + tensor(0, 2, 1) +
                            text("kind") + name("lib", "Layer") + "ub";
  const IValue value =
      read(name("lib", "Cache") + ")\x81}" + text("layers") + "](" + layer + layer + "esb.");
  const IValue first = value.toGenericDict().at("layers").toListRef()[0];
  EXPECT_EQ(first.toGenericDict().at("keys").toTensor().numel(), 2);
  EXPECT_TRUE(first.toGenericDict().at("kind").isNone());
  const IValue pair = read(name("lib", "Pair") + number(1) + number(2) + "\x86\x81.");
  EXPECT_EQ(pair.toTupleRef().elements()[1].toInt(), 2);
}

TEST(Pickle, RefusesObjectsWithoutPlainAttributes) {
  EXPECT_EQ(refusal(name("lib", "Cache") + ")\x81" + number(1) + "b."),
            "it contains a 'lib.Cache'");
  EXPECT_NE(
      refusal(name("lib", "Cache") + ")\x81}" + number(1) + number(2) + "sb.").find("no name"),
      std::string::npos);
  EXPECT_NE(refusal(number(1) + ")\x81.").find("not a class"), std::string::npos);
  EXPECT_NE(refusal("]}b.").find("has no attributes"), std::string::npos);
  EXPECT_EQ(refusal(name("lib", "Cache") + ")\x81q\0}"s + text("me") + "h\0sb."s),
            "it contains a container that contains itself");
}

TEST(Pickle, NamesTheClassThatItRefuses) {
  EXPECT_EQ(refusal(name("os", "system") + text("true") + "\x85R."), "it contains a 'os.system'");
  EXPECT_EQ(refusal(text("os") + text("system") + "\x93."), "it contains a 'os.system'");
  EXPECT_EQ(refusal(name("torch._utils", "_rebuild_qtensor") + "."),
            "it contains a 'torch._utils._rebuild_qtensor'");
  // A known name alone is no value, and not everything that is known can be called.
  EXPECT_EQ(refusal(name("torch", "Tensor") + "."), "it contains a 'torch.Tensor'");
  EXPECT_EQ(refusal(name("torch", "FloatStorage") + ")R."), "it contains a 'torch.FloatStorage'");
}

TEST(Pickle, RefusesTensorsBeyondTheirStorage) {
  EXPECT_NE(refusal(tensor(0, 7, 1) + ".").find("beyond its storage"), std::string::npos);
  EXPECT_NE(refusal(tensor(6, 1, 1) + ".").find("beyond its storage"), std::string::npos);
  EXPECT_NE(refusal(tensor(0, 3, 3) + ".").find("beyond its storage"), std::string::npos);
  EXPECT_NE(refusal(tensor(0, 1, 1, 7) + ".").find("should have 7 elements"), std::string::npos);
  // A size that overflows.
  const std::string huge = "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x40"s;
  EXPECT_NE(refusal(name("torch._utils", "_rebuild_tensor_v2") + "(" + storage("0", 6) + number(0) +
                    huge + huge + "\x86" + huge + huge + "\x86\x89}tR.")
                .find("beyond its storage"),
            std::string::npos);
  EXPECT_EQ(read(tensor(6, 0, 1) + ".").toTensor().numel(), 0);
}

TEST(Pickle, RefusesContainersInsideThemselvesAndBombs) {
  EXPECT_EQ(refusal("]q\0h\0a."s), "it contains a container that contains itself");
  EXPECT_EQ(refusal("]q\0h\0\x85"s + "a."), "it contains a container that contains itself");
  std::string deep = "N";
  for (int i = 0; i < 5000; ++i) deep += "\x85";
  EXPECT_NE(refusal(deep + ".").find("more than 200 deep"), std::string::npos);
  std::string bomb = "Nq\0"s;
  for (int i = 0; i < 60; ++i) bomb += "h\0h\0\x86q\0"s;
  EXPECT_NE(refusal(bomb + ".").find("more than 1000000 values"), std::string::npos);
}

TEST(Pickle, RefusesWhatEndsEarlyOrMakesNoSense) {
  const std::string good =
      "\x80\x02(" + tensor(0, 2, 1) + "](" + number(1) + "e}" + text("k") + number(3) + "st.";
  read(good);
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_NE(refusal(good.substr(0, n)), "no error") << n;
  for (const char* bad : {"t.", "(.", "R.", "a.", "Q.", "N)R.", "NNs.", "h\x05.", "]Nb.", "i."})
    EXPECT_NE(refusal(bad), "no error") << bad;
}

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
std::string dict_of_ints(std::uint64_t step, std::uint64_t n) {
  std::string pickle = "}(";
  for (std::uint64_t i = 0; i < n; ++i) pickle += "\x8a\x08" + bytes_of(i * step) + "N";
  return pickle + "u.";
}

// Torch multiplies a hash with this number and takes the upper bits: with its inverse, all
// integers collide, and the table grows to 11 GB for 40 of them.
TEST(Pickle, RefusesKeysThatCollideInTorchsTable) {
  std::uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - 11400714819323198485ull * inverse;
  EXPECT_NE(refusal(dict_of_ints(inverse, 40)).find("keys that collide"), std::string::npos);
  std::string nans = "}(";  // none of which equals another
  for (int i = 0; i < 40; ++i) nans += "G\x7f\xf8\0\0\0\0\0\0N"s;
  EXPECT_NE(refusal(nans + "u.").find("keys that collide"), std::string::npos);
}

TEST(Pickle, TakesManyKeysOfEveryKind) {
  for (std::uint64_t step : {1, 2, 64, 1000, 4096, 1'000'000})
    for (std::uint64_t n : {1, 2, 3, 7, 100, 50'000})
      EXPECT_EQ(read(dict_of_ints(step, n)).toGenericDict().size(), n) << step;
  std::string words = "}(";
  for (int i = 0; i < 50'000; ++i) words += text("layers." + std::to_string(i)) + "N";
  EXPECT_EQ(read(words + "u.").toGenericDict().size(), 50'000u);
}

// In a table of hashes, indices that an attacker chose would take time as their square.
TEST(Pickle, RefusesAMemoOutOfOrder) {
  EXPECT_NE(refusal("Nr" + bytes_of(std::uint32_t{1'000'003}) + ".").find("out of order"),
            std::string::npos);
  EXPECT_EQ(read("Nq\0K\7q\1q\0h\0\x87."s).toTupleRef().elements()[2].toInt(), 7);
}

TEST(Pickle, WhatIsReferredToTwiceIsOneValue) {
  const IValue value = read("]q\0Nah\0\x86."s);
  const std::vector<IValue> items = value.toTupleRef().elements().vec();
  EXPECT_TRUE(items[0].is(items[1]));
}

std::string doubled(int times) {
  std::string pickle = "N";
  for (char i = 0; i < times; ++i) pickle += "q"s + i + "0}(K\0h"s + i + "K\1h"s + i + "u";
  return pickle + ".";
}

TEST(Pickle, RefusesMoreValuesThanAnyInputHas) {
  read(doubled(17));
  for (const std::string& large :
       {doubled(18), doubled(100), "(" + std::string(1'000'001, 'N') + "t."})
    EXPECT_NE(refusal(large).find("more than 1000000 values"), std::string::npos);
}

TEST(Pickle, RefusesTensorsThatStandForMoreThanTheFileHolds) {
  const auto shaped = [](const std::string& sizes, const std::string& strides) {
    return name("torch._utils", "_rebuild_tensor_v2") + "(" + storage("0", 6) + number(0) + "(" +
           sizes + "t(" + strides + "t\x89}tR.";
  };
  const std::string kilo = "M\0\x04"s;
  EXPECT_EQ(read(shaped(kilo + kilo, "K\0K\0"s)).toTensor().numel(), 1 << 20);
  EXPECT_NE(refusal(shaped(kilo + kilo + kilo, "K\0K\0K\0"s)).find("repeats elements"),
            std::string::npos);
  std::string ones;
  for (int i = 0; i < 65; ++i) ones += number(1);
  EXPECT_NE(refusal(shaped(ones, ones)).find("more than 64 dimensions"), std::string::npos);
}

// Whatever the bytes are, reading ends with a value or an Error.
RC_GTEST_PROP(PickleProperty, SurvivesDamage, ()) {
  std::string pickle = "\x80\x02(" + tensor(0, 2, 1) + "](" + number(1) + "e}" + text("k") +
                       number(3) + "s" + name("torch", "Size") + number(2) + "\x85\x85Rt.";
  const auto edits = *rc::gen::container<std::vector<std::pair<std::uint8_t, char>>>(
      rc::gen::pair(rc::gen::arbitrary<std::uint8_t>(), rc::gen::arbitrary<char>()));
  for (const auto& [at, byte] : edits) pickle[at % pickle.size()] = byte;
  try {
    read(pickle);
  } catch (const Error&) {
  }
}

// The same for instructions that make sense one by one.
RC_GTEST_PROP(PickleProperty, SurvivesAnyProgram, ()) {
  static const std::vector<std::string> words = {"(",
                                                 "0",
                                                 "N",
                                                 "\x88",
                                                 "\x89",
                                                 "J\xff\xff\xff\xff",
                                                 number(0),
                                                 number(1),
                                                 number(2),
                                                 number(6),
                                                 "M\xff\xff",
                                                 "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
                                                 "\x8a\x08\0\0\0\0\0\0\0\x80"s,
                                                 "G\x7f\xf8\0\0\0\0\0\0"s,
                                                 text("k"),
                                                 text("conj"),
                                                 text("neg"),
                                                 text("cpu"),
                                                 ")",
                                                 "\x85",
                                                 "\x86",
                                                 "\x87",
                                                 "t",
                                                 "]",
                                                 "a",
                                                 "e",
                                                 "}",
                                                 "s",
                                                 "u",
                                                 "R",
                                                 "Q",
                                                 "b",
                                                 "\x93",
                                                 "\x94",
                                                 "q\0"s,
                                                 "q\1",
                                                 "h\0"s,
                                                 "h\1",
                                                 "h\2",
                                                 name("torch", "Size"),
                                                 name("torch", "device"),
                                                 name("torch", "float32"),
                                                 name("torch", "quint8"),
                                                 name("torch", "FloatStorage"),
                                                 name("collections", "OrderedDict"),
                                                 name("builtins", "complex"),
                                                 name("torch._utils", "_rebuild_parameter"),
                                                 name("torch._tensor", "_rebuild_from_type_v2"),
                                                 name("torch", "Tensor"),
                                                 storage("0", 6),
                                                 tensor(0, 2, 1),
                                                 tensor(0, 6, 0),
                                                 "("s,
                                                 "("s,
                                                 name("torch._utils", "_rebuild_tensor_v2"),
                                                 name("torch._utils", "_rebuild_tensor_v3")};
  std::string pickle;
  for (const std::uint8_t word : *rc::gen::arbitrary<std::vector<std::uint8_t>>())
    pickle += words[word % words.size()];
  // So that what is left over is a value, too.
  for (const char* end : {".", "t.", "\x85.", "0."}) {
    try {
      read(pickle + end);
    } catch (const Error&) {
    }
  }
}

TEST(Pickle, WritesWhatItReads) {
  c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
  dict.insert("x", at::arange(6, at::kFloat).view({2, 3}).t());
  dict.insert(2, IValue(c10::complex<double>(1, 2)));
  c10::impl::GenericList list(c10::AnyType::get());
  list.push_back(at::ones({2}, at::kBFloat16));
  list.push_back(at::ones({2}, at::kUInt16));
  list.push_back(1.5);
  list.push_back(std::int64_t{-3});
  const IValue value =
      c10::ivalue::Tuple::create({list, dict, IValue(), "text", true, c10::Device("cpu")});
  const Pickle pickle = write_pickle(value);
  const IValue back = read_pickle(pickle.bytes, [&](const std::string& key) {
    return pickle.tensors.at(std::stoul(key)).storage();
  });
  const std::vector<IValue> items = back.toTupleRef().elements().vec();
  const at::Tensor x = items[1].toGenericDict().at("x").toTensor();
  EXPECT_TRUE(at::equal(x, at::arange(6, at::kFloat).view({2, 3}).t()));
  EXPECT_EQ(x.strides(), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(items[1].toGenericDict().at(2).toComplexDouble(), c10::complex<double>(1, 2));
  EXPECT_EQ(items[0].toListRef()[0].toTensor().scalar_type(), at::kBFloat16);
  EXPECT_EQ(items[0].toListRef()[1].toTensor().scalar_type(), at::kUInt16);
  EXPECT_EQ(items[0].toListRef()[2].toDouble(), 1.5);
  EXPECT_EQ(items[0].toListRef()[3].toInt(), -3);
  EXPECT_TRUE(items[2].isNone());
  EXPECT_EQ(items[3].toStringRef(), "text");
  EXPECT_TRUE(items[4].toBool());
  EXPECT_EQ(items[5].toDevice(), c10::Device("cpu"));
}

TEST(Pickle, WritesASliceWithoutTheRest) {
  const at::Tensor large = at::arange(1000, at::kFloat);
  const Pickle pickle = write_pickle(large.slice(0, 10, 20, 5));
  ASSERT_EQ(pickle.tensors.size(), 1u);
  EXPECT_TRUE(at::equal(pickle.tensors[0], at::tensor({10.f, 15.f})));
  EXPECT_EQ(pickle.tensors[0].nbytes(), 8u);
}

}  // namespace
}  // namespace refx
