// SPDX-License-Identifier: Apache-2.0

#include "ops/new_weight.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace refx::testing {
namespace {

// While it lives, the process gets at most so much memory more.
class ShortOfMemory {
 public:
  explicit ShortOfMemory(rlim_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit{pages * sysconf(_SC_PAGESIZE) + bytes, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~ShortOfMemory() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_;
};

TEST(NewWeight, PartsAreJoinedAsTorchDoesIt) {
  for (const std::int64_t rows : {1, 3, 700, 1500})  // 6 MB: in large pages
    for (const std::int64_t dim : {0, 1}) {
      const at::Tensor a = at::rand({rows, 1000}), b = at::rand({dim == 0 ? 7 : rows, 1000}),
                       wide = dim == 1 ? b.slice(1, 0, 5) : b;
      const at::Tensor whole = joined({a, wide.t().contiguous().t()}, dim);
      EXPECT_TRUE(at::equal(whole, at::cat({a, wide}, dim)));
      EXPECT_TRUE(whole.is_contiguous());
    }
}

TEST(NewWeight, ManySmallPartsAreOneLargeWhole) {
  std::vector<at::Tensor> parts;
  for (int i = 0; i < 300; ++i) parts.push_back(at::rand({1 + i % 20, 100}));  // 1 MB in all
  EXPECT_TRUE(at::equal(joined(parts, 0), at::cat(parts, 0)));
}

// Weights of a few hundred kilobytes are neighbours in memory, and else nothing to each other.
TEST(NewWeight, SmallerOnesAreIndependent) {
  const at::Tensor weight = at::rand({300, 501});
  std::vector<at::Tensor> weights;
  for (int i = 0; i < 200; ++i) {
    weights.push_back(empty_like_weight(weight).copy_(weight + i));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(weights[i].const_data_ptr()) % 64, 0u);
    EXPECT_EQ(weights[i].storage().nbytes(), weight.nbytes());
    EXPECT_TRUE(i == 0 || !weights[i].is_alias_of(weights[i - 1]));
  }
  for (int i = 0; i < 200; i += 2) weights[i].reset();
  const std::vector<at::Tensor> more(20, empty_like_weight(weight).fill_(-1));
  for (int i = 1; i < 200; i += 2) EXPECT_TRUE(at::equal(weights[i], weight + i));
}

TEST(NewWeight, LargeOnesStandOnALargePageAndCanGrow) {
  const auto address = [](const at::Tensor& t) {
    return reinterpret_cast<std::uintptr_t>(t.const_data_ptr());
  };
  const at::Tensor weight = at::rand({3, 5, 512, 512}).contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor like = empty_like_weight(weight);
  EXPECT_EQ(like.strides(), weight.strides());
  EXPECT_EQ(like.scalar_type(), weight.scalar_type());
  EXPECT_EQ(address(like) % (2 << 20), 0u);
  like.copy_(weight);
  EXPECT_TRUE(at::equal(like, weight));
  like.resize_({4, 5, 512, 512});  // as weights of torch's own allocator may be
  EXPECT_EQ(like.numel(), 4 * 5 * 512 * 512);
  EXPECT_EQ(empty_like_weight(weight.to(at::kMeta)).device(), at::kMeta);
}

TEST(NewWeight, WhereThereIsTooLittleForABlockTorchHasEnoughForOne) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end a process that gets no memory";
#endif
  const at::Tensor weight = at::rand({300, 501});
  at::Tensor like;
  {
    const ShortOfMemory shortage(8 << 20);
    like = empty_like_weight(weight);
  }
  EXPECT_TRUE(at::equal(like.copy_(weight), weight));
}

}  // namespace
}  // namespace refx::testing
