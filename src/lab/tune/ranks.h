// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace refx {

// Processes that torchrun started together, and tasks that they share through its store. A task
// whose process has died is taken over by another.
class Ranks {
 public:
  // None if this process is alone. Throws Error if the store cannot be reached.
  static std::unique_ptr<Ranks> from_environment();
  // The process that holds the store waits until the others have left, or are dead.
  ~Ranks();

  int rank() const;
  int count() const;

  // Whether this process is to do the task; false while another one, which is alive, does it.
  bool claim(const std::string& task);
  // What came of the task, for all.
  void publish(const std::string& task, const std::string& result);
  std::optional<std::string> result(const std::string& task);
  // A moment, before asking again.
  void wait() const;

 private:
  class Store;
  explicit Ranks(std::unique_ptr<Store> store);
  std::unique_ptr<Store> store_;
};

}  // namespace refx
