// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "refx/tune.h"

namespace simdjson::dom {
class element;
}

namespace refx {

// The trials, by the class of sites, the moves, and where they were measured.
class Trials {
 public:
  // `where` describes the machine, versions and settings. Trials with another `where` are ignored.
  Trials(std::string where, std::string file);

  // Returns how many of them have the same `where`.
  std::size_t read(const std::string& path);
  // A line as another process's add() made it.
  void read_line(const std::string& line);
  const Trial* find(const std::string& key, const std::vector<std::string>& moves) const;
  // Returns its line.
  std::string add(const std::string& key, const Trial& trial);

 private:
  bool take(const simdjson::dom::element& line, bool remembered);

  std::string where_, file_;
  std::map<std::pair<std::string, std::vector<std::string>>, Trial> all_;
};

}  // namespace refx
