// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace refx {

// The processes that torchrun started together. They share tasks through its store. If a process
// dies, another one takes over its task.
class Ranks {
 public:
  // None if this process is alone. Throws Error if the store cannot be reached.
  static std::unique_ptr<Ranks> from_environment();
  // The process that holds the store waits until the others have left, or are dead.
  ~Ranks();

  int rank() const;
  int count() const;

  // Whether this process does the task. False while another live process does it.
  bool claim(const std::string& task);
  // Stores the result of the task for the other processes.
  void publish(const std::string& task, const std::string& result);
  std::optional<std::string> result(const std::string& task);
  // Waits a moment before the next attempt.
  void wait() const;

 private:
  class Store;
  explicit Ranks(std::unique_ptr<Store> store);
  std::unique_ptr<Store> store_;
};

}  // namespace refx
