// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "pt2/source.h"

namespace refx {

// The records of a file that is to be written. It owns the texts; the blobs may point into them,
// into tensors that it keeps, and into the source's archive.
class Image {
 public:
  // What torch.export.load needs of the model: all but the history.
  Image(const Model& model, const Pt2Source& source);
  Image(Image&&) = default;

  struct Item {
    std::string name;
    Blob blob;
  };
  const std::vector<Item>& items() const { return items_; }
  const Blob* find(std::string_view name) const;
  void add(std::string name, std::string text);
  void add(std::string name, Blob blob);

  // Keeps another image alive whose blobs were added.
  void adopt(std::unique_ptr<Image> other) { adopted_.push_back(std::move(other)); }

  // The record that holds the tensor's storage; empty if none does.
  std::string record_of(const at::TensorBase& tensor) const;
  // A record for a storage that is to be kept besides those of the model.
  std::string keep(const at::TensorBase& tensor, const std::string& name);

 private:
  Blob bytes_of(const at::TensorBase& tensor);
  void put_state(const Model& model, bool weights);

  const Pt2Source& source_;
  std::vector<Item> items_;
  std::unordered_map<std::string, std::size_t> index_;
  std::deque<std::string> texts_;
  std::vector<at::Tensor> tensors_;
  std::vector<std::unique_ptr<Image>> adopted_;
  std::unordered_map<const void*, std::string> storages_;  // storage -> its first record
  std::unordered_map<const void*, std::string> original_;  // storage -> its record in the original
  std::unordered_map<const void*, bool> written_;  // storage -> written to since it was mapped
};

// Whether the tensor stands with the weights; if not, with the constants.
bool goes_to_weights(const StateEntry& entry);

// Whether two blobs hold the same bytes, told without reading them: false if that is not known.
bool surely_same(const Blob& a, const Blob& b);

}  // namespace refx
