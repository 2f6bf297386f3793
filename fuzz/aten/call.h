// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <random>
#include <string>
#include <vector>

namespace refx::fuzz {

// An argument as a file can specify it, before it is converted to a value of torch.
struct Value {
  enum class Kind { none, boolean, integer, number, complex, text, list, tensor };

  Kind kind = Kind::none;
  std::int64_t integer = 0;  // a boolean too
  double number = 0, imaginary = 0;
  std::string text = {};
  std::vector<Value> items = {};
  // of a tensor
  int dtype = 6;
  std::vector<std::int64_t> sizes = {}, strides = {}, values = {};
  int content = 0;  // how elements without a value are chosen
  bool meta = false;
  int same_as = -1;  // the index of the argument that this one is identical to

  std::string str() const;
};

using Arguments = std::vector<Value>;

Value read_value(std::istream& in);

using Random = std::minstd_rand;
inline std::size_t below(Random& random, std::size_t limit) { return random() % limit; }

// Arguments of the schema's types, of any size and kind.
Arguments make_arguments(const c10::FunctionSchema& schema, Random& random);
// A few changes that may make them hostile. `pool` has values of other calls.
void distort(Arguments& arguments, const c10::FunctionSchema& schema,
             const std::vector<const Arguments*>& pool, Random& random);

// Calls the operator as the executor does. Throws what it throws; aborts if a result lies outside
// its memory.
void call(const c10::OperatorHandle& op, const Arguments& arguments, Random& random);

}  // namespace refx::fuzz
