// SPDX-License-Identifier: Apache-2.0

#include "exec/resize.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_linear1d.h>
#include <ATen/ops/upsample_nearest1d.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/upsample_nearest3d.h>
#include <ATen/ops/upsample_trilinear3d.h>

#include "refx/error.h"

namespace refx::exec {
namespace {

using c10::IValue;

// One number for every spatial dimension, or a list of them.
template <class T, class Get>
std::optional<std::vector<T>> per_dimension(const IValue& v, std::int64_t dims, Get get) {
  if (v.isNone()) return std::nullopt;
  std::vector<T> out;
  if (v.isTuple()) {
    for (const IValue& i : v.toTupleRef().elements()) out.push_back(get(i));
  } else if (v.isList()) {
    for (const IValue& i : v.toListRef()) out.push_back(get(i));
  } else {
    out.assign(static_cast<std::size_t>(dims), get(v));
  }
  return out;
}

template <class T>
std::optional<at::ArrayRef<T>> reference(const std::optional<std::vector<T>>& v) {
  if (!v) return std::nullopt;
  return at::ArrayRef<T>(*v);
}

}  // namespace

IValue interpolate(const NativeCall& call) {
  at::Tensor x = call.tensor(0);
  if (x.dim() < 3) throw Error("interpolate expects an input of three dimensions or more");
  if (!call[3].isString()) throw Error("interpolate expects the name of a mode");
  std::string mode = call[3].toStringRef();
  bool corners = call[4].isBool() && call[4].toBool();
  auto on = [&](std::size_t i) { return call[i].isBool() && call[i].toBool(); };
  if (on(5) || on(6)) {
    throw Error("interpolate: recompute_scale_factor and antialias are not supported");
  }
  auto size = per_dimension<std::int64_t>(call[1], x.dim() - 2, [](const IValue& v) {
    if (!v.isInt()) throw Error("interpolate expects integers as a size, got " + v.tagKind());
    return v.toInt();
  });
  auto scale = per_dimension<double>(call[2], x.dim() - 2, [](const IValue& v) {
    if (!v.isInt() && !v.isDouble())
      throw Error("interpolate expects numbers as scale factors, got " + v.tagKind());
    return v.isInt() ? static_cast<double>(v.toInt()) : v.toDouble();
  });
  at::OptionalIntArrayRef s = reference(size);
  auto f = reference(scale);
  if (mode == "nearest" && x.dim() == 3) return at::upsample_nearest1d(x, s, f);
  if (mode == "nearest" && x.dim() == 4) return at::upsample_nearest2d(x, s, f);
  if (mode == "nearest" && x.dim() == 5) return at::upsample_nearest3d(x, s, f);
  if (mode == "linear" && x.dim() == 3) return at::upsample_linear1d(x, s, corners, f);
  if (mode == "bilinear" && x.dim() == 4) return at::upsample_bilinear2d(x, s, corners, f);
  if (mode == "bicubic" && x.dim() == 4) return at::upsample_bicubic2d(x, s, corners, f);
  if (mode == "trilinear" && x.dim() == 5) return at::upsample_trilinear3d(x, s, corners, f);
  throw Error("interpolate: mode '" + mode + "' is not known for " + std::to_string(x.dim()) +
              "-dimensional inputs");
}

}  // namespace refx::exec
