#pragma once

#include <map>
#include <string>
#include <vector>

#include "refx/tune.h"

namespace refx {

// What was measured, by the class of places, the moves, and where it was measured.
class Trials {
 public:
  // `where` tells machines, versions and settings apart whose numbers do not compare.
  Trials(std::string where, std::string record);

  void read(const std::string& path);
  // A line as add() made it; false if it is not one.
  bool read_line(const std::string& line);
  const Trial* find(const std::string& key, const std::vector<std::string>& moves) const;
  // Returns its line.
  std::string add(const std::string& key, const Trial& trial);

 private:
  void take(const std::string& key, const std::string& where, Trial trial);

  std::string where_, record_;
  std::map<std::pair<std::string, std::vector<std::string>>, Trial> all_;
};

}  // namespace refx
