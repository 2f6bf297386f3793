// SPDX-License-Identifier: Apache-2.0

#include "pt2/storages.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cstring>

#include "archive/mapping.h"
#include "ir/detached.h"
#include "pt2/stored_tensor.h"
#include "refx/error.h"

namespace refx {

namespace {

class SliceOf final : public Content {
 public:
  SliceOf(at::TensorBase whole, const Piece& piece, std::size_t size,
          std::array<std::uint64_t, 2> hash, std::string name)
      : memory_(size),
        whole_(std::move(whole)),
        piece_(piece),
        hash_(hash),
        name_(std::move(name)) {}

  void* data() const override { return memory_.data(); }
  std::size_t size() const override { return memory_.size(); }

 private:
  void provide() override {
    require_content(whole_);
    const at::Tensor part =
        at::Tensor(whole_).detach().narrow(piece_.dim, piece_.start, piece_.length).contiguous();
    REFX_CHECK(part.nbytes() == size(), "a slice has another size than its original");
    if (content_hash(part) != hash_)
      throw LostContent(fmt::format(
          "an original was kept as part of record '{}', which another program has changed "
          "since; it is lost, but the change can be carried back to it",
          name_));
    if (size() > 0) std::memcpy(data(), part.const_data_ptr(), size());
  }

  Mapping memory_;  // costs nothing until it is filled
  at::TensorBase whole_;
  Piece piece_;
  std::array<std::uint64_t, 2> hash_;
  std::string name_;
};

constexpr std::uint64_t kAlignment = 16;

}  // namespace

std::shared_ptr<Content> slice_content(at::TensorBase whole, const Piece& piece, std::size_t size,
                                       std::array<std::uint64_t, 2> hash, std::string name) {
  return std::make_shared<SliceOf>(std::move(whole), piece, size, hash, std::move(name));
}

namespace {

c10::Storage mapped(const std::shared_ptr<const Archive>& archive, const Record& record, int copy) {
  std::shared_ptr<Content> content = archive->map(record, copy);
  // Copied where the file does not align it, and tensors of the model must be there at once.
  if (record.offset % kAlignment != 0) content->require();
  return storage_of(std::move(content));
}

}  // namespace

c10::Storage Storages::unshared(const Record& record) {
  auto [it, is_new] = unshared_.try_emplace(record.name);
  if (is_new) it->second = mapped(archive_, record, 1);
  return it->second;
}

c10::Storage Storages::of_record(const Record& record) {
  auto [it, is_new] = of_record_.try_emplace(record.name);
  if (!is_new) return it->second;
  it->second = mapped(archive_, record, 0);
  records_[it->second.unsafeGetStorageImpl()] = &record;
  return it->second;
}

c10::Storage Storages::on(c10::Device device, const c10::Storage& storage) {
  if (device == storage.device()) return storage;
  auto [it, is_new] = moved_.try_emplace({storage.unsafeGetStorageImpl(), device.index()});
  if (!is_new) return it->second;
  if (Detached* detached = detached_in(storage))
    return it->second = storage_of(detached->shared_from_this(), device);
  const at::Tensor bytes = bytes_in(storage);
  require_content(bytes);
  it->second = bytes.to(device).storage();
  if (const Record* record = record_of(storage))
    records_[it->second.unsafeGetStorageImpl()] = record;
  return it->second;
}

const Record* Storages::record_of(const c10::Storage& storage) const {
  auto it = records_.find(storage.unsafeGetStorageImpl());
  return it == records_.end() ? nullptr : it->second;
}

c10::Storage Storages::of_content(const std::shared_ptr<Content>& content) {
  auto [it, is_new] = of_content_.try_emplace(content.get());
  if (!is_new) return it->second;
  const auto detached = std::dynamic_pointer_cast<Detached>(content);
  return it->second = detached ? storage_of(detached, c10::kCPU) : storage_of(content);
}

}  // namespace refx
