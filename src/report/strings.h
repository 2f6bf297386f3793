// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

namespace refx {

// Texts that repeat. Each is written to the page once, and referred to by its index.
class Strings {
 public:
  int of(std::string text) {
    const auto [at, is_new] = numbers_.try_emplace(std::move(text), static_cast<int>(all_.size()));
    if (is_new) all_.push_back(&at->first);
    return at->second;
  }
  const std::vector<const std::string*>& all() const { return all_; }

 private:
  std::unordered_map<std::string, int> numbers_;
  std::vector<const std::string*> all_;
};

}  // namespace refx
