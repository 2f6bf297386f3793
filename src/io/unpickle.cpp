// SPDX-License-Identifier: Apache-2.0

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>

#include "book/enum_names.h"
#include "io/pickle.h"
#include "io/storage_types.h"
#include "ir/dict.h"
#include "refx/error.h"
#include "util/limits.h"

namespace refx {

namespace {

using c10::IValue;

struct Object;
using Ref = std::shared_ptr<Object>;

// A value while the pickle runs.
struct Object {
  enum class Tag { value, tuple, list, dict, object, name, storage };

  Tag kind = Tag::value;
  IValue value = {};
  std::vector<Ref> items = {};  // of a dict, and of an object: key, value, key, value
  std::string name = {};
  c10::Storage storage = {};
  c10::ScalarType dtype = c10::ScalarType::Undefined;  // of a storage, or the value itself
  bool contained = false;  // in another: complete, and never written again
  int depth = 0;
  std::uint64_t leaves = 1;
};

Ref make(IValue value) { return std::make_shared<Object>(Object{.value = std::move(value)}); }
Ref make(Object::Tag kind, std::vector<Ref> items = {}) {
  return std::make_shared<Object>(Object{.kind = kind, .items = std::move(items)});
}

// The names of torch that stand for something in a pickle. What they do is in Unpickler::call.
constexpr std::array<std::string_view, 8> kOfTorch = {"torch._utils._rebuild_tensor_v2",
                                                      "torch._utils._rebuild_tensor_v3",
                                                      "torch._utils._rebuild_parameter",
                                                      "torch._tensor._rebuild_from_type_v2",
                                                      "torch.Tensor",
                                                      "torch.nn.parameter.Parameter",
                                                      "torch.Size",
                                                      "torch.device"};

class Unpickler {
 public:
  Unpickler(std::string_view bytes, const FindStorage& find_storage)
      : bytes_(bytes), find_storage_(find_storage) {}

  IValue run() {
    while (!done_) step(static_cast<unsigned char>(take(1)[0]));
    const Ref result = pop();
    if (!stack_.empty()) damaged("values are left over");
    return finished(*result);
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(fmt::format("its pickle is damaged at byte {}: {}", at_, what));
  }
  [[noreturn]] static void too_much() {
    throw Error(fmt::format("it contains more than {} values, or containers more than {} deep",
                            limits::kPickledValues, limits::kValueDepth));
  }

  // ---- bytes ---------------------------------------------------------------------------------

  std::string_view take(std::uint64_t n) {
    if (n > bytes_.size() - at_) damaged("it ends too early");
    const std::string_view part = bytes_.substr(at_, n);
    at_ += n;
    return part;
  }
  template <class T>
  T little() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  double big_endian_double() {
    std::uint64_t bits = 0;
    for (char c : take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
    return std::bit_cast<double>(bits);
  }
  std::int64_t long_number() {
    const std::string_view digits = take(little<std::uint8_t>());
    if (digits.size() > 8) throw Error("it contains an integer of more than 64 bits");
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < digits.size(); ++i)
      bits |= static_cast<std::uint64_t>(static_cast<unsigned char>(digits[i])) << (8 * i);
    const std::size_t unused = 64 - 8 * digits.size();
    if (unused == 64) return 0;
    return static_cast<std::int64_t>(bits << unused) >> unused;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) damaged("a name has no end");
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }

  // ---- stack ---------------------------------------------------------------------------------

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  void push(Ref object) {
    if (++values_ > limits::kPickledValues) too_much();
    stack_.push_back(std::move(object));
  }
  void push(IValue value) { push(make(std::move(value))); }
  Object& top() {
    if (stack_.size() <= floor()) damaged("a value is missing");
    return *stack_.back();
  }
  Ref pop() {
    top();
    Ref object = std::move(stack_.back());
    stack_.pop_back();
    return object;
  }
  std::vector<Ref> pop(std::size_t n) {
    if (stack_.size() - floor() < n) damaged("a value is missing");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(n);
    std::vector<Ref> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    return items;
  }
  std::vector<Ref> pop_to_mark() {
    if (marks_.empty()) damaged("a mark is missing");
    std::vector<Ref> items = pop(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }
  void recall(std::uint32_t index) {
    if (index >= memo_.size())
      damaged(fmt::format("it refers to value {}, which is not there", index));
    push(memo_[index]);
  }
  // Python numbers them in turn.
  void memorize(std::size_t index) {
    top();
    if (index > memo_.size()) damaged(fmt::format("value {} is out of order", index));
    if (index == memo_.size()) memo_.emplace_back();
    memo_[index] = stack_.back();
  }

  // ---- containers ----------------------------------------------------------------------------

  // A value is complete when it is put into another, so that nothing contains itself and depth and
  // size are known.
  void put(Object& container, const Ref& item) {
    if (container.contained || item.get() == &container)
      throw Error("it contains a container that contains itself");
    item->contained = true;
    container.depth = std::max(container.depth, item->depth + 1);
    container.leaves += item->leaves;
    if (container.depth > limits::kValueDepth || container.leaves > limits::kPickledValues)
      too_much();
    container.items.push_back(item);
  }
  Object& container(Object::Tag kind) {
    Object& object = top();
    if (object.kind != kind) damaged("a value is not the container that it should be");
    return object;
  }
  void append(const std::vector<Ref>& items) {
    Object& list = container(Object::Tag::list);
    for (const Ref& item : items) put(list, item);
  }
  void set_items(const std::vector<Ref>& items) {
    Object& dict = container(Object::Tag::dict);
    if (items.size() % 2 != 0) damaged("a dict has a key without a value");
    for (std::size_t i = 0; i < items.size(); ++i) {
      const IValue& key = items[i]->value;
      if (i % 2 == 0 && !key.isString() && !key.isInt() && !key.isBool() && !key.isDouble())
        throw Error("it contains a dict whose keys are neither strings nor numbers");
      put(dict, items[i]);
    }
  }
  void push_tuple(const std::vector<Ref>& items) {
    const Ref tuple = make(Object::Tag::tuple);
    for (const Ref& item : items) put(*tuple, item);
    push(tuple);
  }

  // ---- names and calls -----------------------------------------------------------------------

  void push_name(const std::string& name) {
    const std::string_view torch_name =
        name.starts_with("torch.") ? std::string_view(name).substr(6) : std::string_view();
    if (const auto dtype = find_dtype(torch_name)) {
      const Ref object = make(IValue(*dtype));
      object->dtype = *dtype;
      return push(object);
    }
    const bool known = std::find(kOfTorch.begin(), kOfTorch.end(), name) != kOfTorch.end();
    if (!torch_name.empty() && !known && !find_storage_type(name))
      throw Error(fmt::format("it contains a '{}'", name));
    const Ref object = make(Object::Tag::name);
    object->name = name;
    push(object);
  }

  const Object& argument(const std::vector<Ref>& args, std::size_t i, Object::Tag kind) const {
    if (i >= args.size() || args[i]->kind != kind) damaged("an argument is not what it should be");
    return *args[i];
  }
  std::int64_t integer(const Object& object) const {
    if (!object.value.isInt()) damaged("a number is not an integer");
    return object.value.toInt();
  }
  std::vector<std::int64_t> integers(const Object& tuple) const {
    if (tuple.items.size() > limits::kDims)
      throw Error(fmt::format("it contains a tensor of more than {} dimensions", limits::kDims));
    std::vector<std::int64_t> numbers;
    for (const Ref& item : tuple.items) numbers.push_back(integer(*item));
    return numbers;
  }

  void call() {
    const Ref arguments = pop();
    const Ref function = pop();
    if (function->kind != Object::Tag::name || arguments->kind != Object::Tag::tuple)
      damaged("something that is not a function is called");
    push(call(function->name, arguments->items));
  }

  // An object of a class that only Python has: its attributes follow. A named tuple is one of its
  // arguments.
  void create() {
    const Ref arguments = pop();
    const Ref type = pop();
    if (type->kind != Object::Tag::name || arguments->kind != Object::Tag::tuple)
      damaged("something that is not a class is created");
    if (!arguments->items.empty()) return push(arguments);
    const Ref object = make(Object::Tag::object);
    object->name = type->name;
    push(object);
  }

  // What a name stands for. None of them is looked up in Python.
  Ref call(const std::string& name, const std::vector<Ref>& args) {
    using Tag = Object::Tag;
    if (name.starts_with("torch._utils._rebuild_tensor_v")) return tensor(args, name.back() == '3');
    if (name == "torch._utils._rebuild_parameter") return make(argument(args, 0, Tag::value).value);
    if (name == "torch._tensor._rebuild_from_type_v2") return tensor_with_attributes(args);
    if (name == "collections.OrderedDict" && args.empty()) return make(Tag::dict);
    if (name == "torch.Size") {
      argument(args, 0, Tag::tuple);
      return args[0];  // tuples are never written to
    }
    if (name == "torch.device") return make(device(args));
    if (name.ends_with(".complex") && args.size() == 2)
      return make(IValue(c10::complex<double>(real(*args[0]), real(*args[1]))));
    // Part of an object, it is that one which a user knows.
    for (const Ref& open : stack_)
      if (open->kind == Object::Tag::object)
        throw Error(fmt::format("it contains a '{}'", open->name));
    throw Error(fmt::format("it contains a '{}'", name));
  }

  double real(const Object& object) const {
    if (!object.value.isDouble()) damaged("a number is not a float");
    return object.value.toDouble();
  }

  IValue device(const std::vector<Ref>& args) const {
    const Object& type = argument(args, 0, Object::Tag::value);
    if (!type.value.isString()) damaged("a device has no name");
    try {
      c10::Device device(type.value.toStringRef());
      if (args.size() > 1) device.set_index(static_cast<c10::DeviceIndex>(integer(*args[1])));
      return device;
    } catch (const c10::Error&) {
      damaged("there is no such device");
    }
  }

  // A plain tensor that had Python attributes, or was of a class of its own.
  Ref tensor_with_attributes(const std::vector<Ref>& args) {
    const Object& function = argument(args, 0, Object::Tag::name);
    const Object& type = argument(args, 1, Object::Tag::name);
    if (type.name != "torch.Tensor" && type.name != "torch.nn.parameter.Parameter")
      throw Error(fmt::format("it contains a '{}'", type.name));
    return call(function.name, argument(args, 2, Object::Tag::tuple).items);
  }

  // (storage, offset, size, stride, requires_grad, hooks[, dtype][, {conj, neg}])
  Ref tensor(const std::vector<Ref>& args, bool with_dtype) {
    const Object& source = argument(args, 0, Object::Tag::storage);
    const std::int64_t offset = integer(argument(args, 1, Object::Tag::value));
    const auto sizes = integers(argument(args, 2, Object::Tag::tuple));
    const auto strides = integers(argument(args, 3, Object::Tag::tuple));
    const c10::ScalarType dtype =
        with_dtype ? argument(args, 6, Object::Tag::value).dtype : source.dtype;
    if (dtype == c10::ScalarType::Undefined || c10::isQIntType(dtype))
      damaged("a tensor has no type");
    check_extent(source.storage.nbytes(), c10::elementSize(dtype), offset, sizes, strides);
    at::Tensor tensor = at::empty({0}, dtype);
    tensor.set_(source.storage, offset, sizes, strides);
    const std::size_t metadata = with_dtype ? 7 : 6;
    if (metadata < args.size() && args[metadata]->kind == Object::Tag::dict)
      set_flags(tensor, *args[metadata]);
    return make(tensor);
  }

  void set_flags(at::Tensor& tensor, const Object& flags) const {
    for (std::size_t i = 0; i + 1 < flags.items.size(); i += 2) {
      const IValue& key = flags.items[i]->value;
      const IValue& value = flags.items[i + 1]->value;
      if (!key.isString() || !value.isBool() || !value.toBool()) continue;
      if (key.toStringRef() == "conj" && tensor.is_complex()) tensor._set_conj(true);
      if (key.toStringRef() == "neg") tensor._set_neg(true);
    }
  }

  void check_extent(std::size_t bytes, std::size_t item, std::int64_t offset,
                    const std::vector<std::int64_t>& sizes,
                    const std::vector<std::int64_t>& strides) {
    std::int64_t last = offset, elements = 1;
    bool fits = offset >= 0 && sizes.size() == strides.size();
    bool empty = false;
    for (std::size_t i = 0; fits && i < sizes.size(); ++i) {
      std::int64_t reach = 0;
      fits = sizes[i] >= 0 && strides[i] >= 0;
      empty |= sizes[i] == 0;
      fits = fits &&
             !__builtin_mul_overflow(elements, std::max<std::int64_t>(sizes[i], 1), &elements) &&
             !__builtin_mul_overflow(std::max<std::int64_t>(sizes[i] - 1, 0), strides[i], &reach) &&
             !__builtin_add_overflow(last, reach, &last);
    }
    const std::uint64_t available = bytes / item;
    fits = fits && (empty ? static_cast<std::uint64_t>(offset) <= available
                          : static_cast<std::uint64_t>(last) < available);
    if (!fits) damaged("a tensor reaches beyond its storage");
    if (!empty && static_cast<std::uint64_t>(elements) > available)
      expanded_ += std::min(static_cast<std::uint64_t>(elements), limits::kExpandedBytes) * item;
    if (expanded_ > limits::kExpandedBytes)
      throw Error(fmt::format("it repeats elements of tensors to more than {} bytes",
                              limits::kExpandedBytes));
  }

  // ('storage', type, key, location, number of elements)
  Ref storage() {
    const Ref id = pop();
    if (id->kind != Object::Tag::tuple) damaged("a storage has no description");
    const std::vector<Ref>& parts = id->items;
    const Object& tag = argument(parts, 0, Object::Tag::value);
    const Object& type = argument(parts, 1, Object::Tag::name);
    const Object& key = argument(parts, 2, Object::Tag::value);
    const std::int64_t elements = integer(argument(parts, 4, Object::Tag::value));
    const auto dtype = find_storage_type(type.name);
    if (!tag.value.isString() || tag.value.toStringRef() != "storage" || !dtype ||
        !key.value.isString())
      damaged("a storage has an unexpected description");
    const Ref object = make(Object::Tag::storage);
    object->storage = find_storage_(key.value.toStringRef());
    object->dtype = *dtype;
    const std::size_t item = *dtype == c10::ScalarType::Undefined ? 1 : c10::elementSize(*dtype);
    const std::size_t bytes = object->storage.nbytes();
    if (elements < 0 || bytes % item != 0 || static_cast<std::uint64_t>(elements) != bytes / item)
      damaged(fmt::format("storage {} should have {} elements of {} bytes, but has {} bytes",
                          key.value.toStringRef(), elements, item, bytes));
    return object;
  }

  // Attributes of an OrderedDict (state_dict() has some) are not needed.
  void set_attributes() {
    const Ref attributes = pop();
    Object& object = top();
    if (object.kind == Object::Tag::dict) return;
    if (object.kind != Object::Tag::object) damaged("a value that has no attributes gets some");
    if (attributes->kind != Object::Tag::dict)
      throw Error(fmt::format("it contains a '{}'", object.name));
    for (std::size_t i = 0; i < attributes->items.size(); ++i) {
      if (i % 2 == 0 && !attributes->items[i]->value.isString())
        damaged("an attribute has no name");
      put(object, attributes->items[i]);
    }
  }

  void step(unsigned char code);

  // ---- result --------------------------------------------------------------------------------

  // Once each: what is referred to several times stays one value.
  const IValue& finished(Object& object) const {
    switch (object.kind) {
      case Object::Tag::value:
        return object.value;
      case Object::Tag::tuple:
        object.value = c10::ivalue::Tuple::create(finished_items(object));
        break;
      case Object::Tag::list: {
        c10::impl::GenericList list(c10::AnyType::get());
        for (IValue& item : finished_items(object)) list.push_back(std::move(item));
        object.value = list;
        break;
      }
      case Object::Tag::object:
        for (Ref& item : object.items)  // a class as an attribute is no part of the value
          if (item->kind == Object::Tag::name) item = make(IValue());
        [[fallthrough]];
      case Object::Tag::dict:
        object.value = make_dict(c10::AnyType::get(), c10::AnyType::get(), finished_items(object));
        break;
      case Object::Tag::name:
        throw Error(fmt::format("it contains a '{}'", object.name));
      case Object::Tag::storage:
        throw Error("it contains a bare storage");
    }
    object.kind = Object::Tag::value;
    return object.value;
  }
  std::vector<IValue> finished_items(const Object& object) const {
    std::vector<IValue> items;
    items.reserve(object.items.size());
    for (const Ref& item : object.items) items.push_back(finished(*item));
    return items;
  }

  std::string_view bytes_;
  const FindStorage& find_storage_;
  std::size_t at_ = 0;
  bool done_ = false;
  std::vector<Ref> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Ref> memo_;
  std::uint64_t values_ = 0;
  std::uint64_t expanded_ = 0;  // bytes of tensors that repeat their elements
};

void Unpickler::step(unsigned char code) {
  switch (code) {
    case 0x80:  // PROTO
      if (little<std::uint8_t>() > 5) damaged("its protocol is not supported");
      return;
    case 0x95:  // FRAME
      take(8);
      return;
    case '.':
      done_ = true;
      return;
    case '(':
      return marks_.push_back(stack_.size());
    case '0':
      pop();
      return;
    case 'N':
      return push(IValue());
    case 0x88:
      return push(IValue(true));
    case 0x89:
      return push(IValue(false));
    case 'J':
      return push(IValue(std::int64_t{little<std::int32_t>()}));
    case 'K':
      return push(IValue(std::int64_t{little<std::uint8_t>()}));
    case 'M':
      return push(IValue(std::int64_t{little<std::uint16_t>()}));
    case 0x8a:
      return push(IValue(long_number()));
    case 'G':
      return push(IValue(big_endian_double()));
    case 0x8c:
      return push(IValue(std::string(take(little<std::uint8_t>()))));
    case 'X':
      return push(IValue(std::string(take(little<std::uint32_t>()))));
    case 0x8d:
      return push(IValue(std::string(take(little<std::uint64_t>()))));
    case ')':
      return push(make(Object::Tag::tuple));
    case 0x85:
    case 0x86:
    case 0x87:
      return push_tuple(pop(code - 0x84u));
    case 't':
      return push_tuple(pop_to_mark());
    case ']':
      return push(make(Object::Tag::list));
    case 'a':
      return append(pop(1));
    case 'e':
      return append(pop_to_mark());
    case '}':
      return push(make(Object::Tag::dict));
    case 's':
      return set_items(pop(2));
    case 'u':
      return set_items(pop_to_mark());
    case 'c': {
      const std::string module(line());
      return push_name(module + "." + std::string(line()));
    }
    case 0x93: {  // STACK_GLOBAL
      const std::vector<Ref> parts = pop(2);
      if (!parts[0]->value.isString() || !parts[1]->value.isString())
        damaged("a name is no string");
      return push_name(parts[0]->value.toStringRef() + "." + parts[1]->value.toStringRef());
    }
    case 'R':
      return call();
    case 0x81:  // NEWOBJ
      return create();
    case 'Q':
      return push(storage());
    case 'b':
      return set_attributes();
    case 'q':
      return memorize(little<std::uint8_t>());
    case 'r':
      return memorize(little<std::uint32_t>());
    case 0x94:
      return memorize(memo_.size());
    case 'h':
      return recall(little<std::uint8_t>());
    case 'j':
      return recall(little<std::uint32_t>());
    default:
      damaged(fmt::format("it uses an instruction (0x{:02x}) that plain values do not need", code));
  }
}

}  // namespace

IValue read_pickle(std::string_view bytes, const FindStorage& find_storage) {
  return Unpickler(bytes, find_storage).run();
}

}  // namespace refx
