// SPDX-License-Identifier: Apache-2.0

#include "refx/inputs.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "exec/input_checks.h"
#include "exec/own_state.h"
#include "io/placeholders.h"
#include "io/treespec.h"
#include "ir/devices.h"
#include "ir/dict.h"
#include "refx/error.h"
#include "refx/source.h"
#include "refx/text.h"
#include "refx/values.h"
#include "util/did_you_mean.h"
#include "util/limits.h"

namespace refx {

namespace {

using c10::IValue;
using Values = std::vector<IValue>;

bool is_sequence(const IValue& value) { return value.isTuple() || value.isList(); }
Values items_of(const IValue& value) {
  return value.isTuple() ? value.toTupleRef().elements().vec() : value.toListRef().vec();
}

IValue key_value(const TreeSpec::Key& key) {
  return key.is_number ? IValue(key.number) : IValue(key.text);
}
std::string quoted(const TreeSpec::Key& key) {
  return key.is_number ? key.text : "'" + key.text + "'";
}

// The position of a value in an argument. text() is computed only for an error message.
struct ValuePath {
  const ValuePath* outer;
  std::string_view name;               // of the argument itself
  const TreeSpec::Key* key = nullptr;  // in a dict
  std::size_t index = 0;               // in a sequence

  std::string text() const {
    if (!outer) return std::string(name);
    return fmt::format("{}[{}]", outer->text(), key ? quoted(*key) : std::to_string(index));
  }
};

// One argument of the model's forward, as Python sees it.
struct Parameter {
  std::string name;
  TreeSpec spec;
  std::size_t first = 0;  // of its leaves among the placeholders
};

// The common prefix of the names, without a trailing number: "cache_0_key", "cache_0_value" ->
// cache.
std::string common_name(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string common = names[0];
  for (const std::string& name : names) {
    const auto end = std::mismatch(common.begin(), common.end(), name.begin(), name.end()).first;
    common.erase(end, common.end());
  }
  if (names.size() > 1 || common.empty()) common = common.substr(0, common.rfind('_'));
  while (!common.empty() &&
         (std::isdigit(static_cast<unsigned char>(common.back())) || common.back() == '_'))
    common.pop_back();
  return common;
}

class Signature {
 public:
  explicit Signature(const Model& model)
      : model_(model), checks_(model), placeholders_(user_placeholders(model)) {
    const Source* source = model.source().get();
    if (source && !source->input_spec().empty())
      take_spec(parse_treespec(source->input_spec()));
    else
      for (NodeId id : placeholders_) add(model.graph()[id].name, TreeSpec{});
    for (std::size_t i = 0; i < placeholders_.size(); ++i) leaf_by_name_.emplace(leaf_name(i), i);
    for (std::size_t i = 0; i < parameters_.size(); ++i) by_name_.emplace(parameters_[i].name, i);
  }

  Values flatten(const IValue& inputs) const {
    std::string first_complaint;
    for (const BoundArguments& call : readings(inputs)) {
      try {
        return bind(call);
      } catch (const Error& error) {
        if (first_complaint.empty()) first_complaint = error.what();
      }
    }
    throw Error(first_complaint);
  }

 private:
  struct BoundArguments {
    Values args;
    std::vector<std::pair<std::string, IValue>> kwargs;
  };

  void add(std::string name, TreeSpec spec) {
    const std::size_t leaves = spec.num_leaves;
    parameters_.push_back({std::move(name), std::move(spec), leaves_});
    leaves_ += leaves;
  }

  void take_spec(const TreeSpec& root) {
    const bool pair = root.children.size() == 2 &&
                      root.children[0].kind == TreeSpec::NodeKind::tuple &&
                      root.children[1].kind == TreeSpec::NodeKind::dict;
    if (!pair) throw Error("the description of the inputs is damaged: it is not (args, kwargs)");
    if (root.num_leaves != placeholders_.size())
      throw Error(fmt::format("the file describes {} inputs, but its graph takes {}",
                              root.num_leaves, placeholders_.size()));
    for (const TreeSpec& arg : root.children[0].children) add(positional_name(arg), arg);
    for (std::size_t i = 0; i < root.children[1].children.size(); ++i)
      add(root.children[1].keys[i].text, root.children[1].children[i]);
  }

  std::string positional_name(const TreeSpec& spec) const {
    if (spec.kind == TreeSpec::NodeKind::leaf) return leaf_name(leaves_);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < spec.num_leaves; ++i) names.push_back(leaf_name(leaves_ + i));
    std::string name = common_name(names);
    return name.empty() ? fmt::format("args[{}]", parameters_.size()) : name;
  }

  std::string leaf_name(std::size_t i) const { return model_.graph()[placeholders_[i]].name; }

  std::string takes() const {
    std::vector<std::string> names;
    for (const Parameter& p : parameters_) names.push_back(p.name);
    return fmt::format("the model takes ({})", fmt::join(names, ", "));
  }

  // The interpretations of the value, the most likely first.
  std::vector<BoundArguments> readings(const IValue& inputs) const {
    std::vector<BoundArguments> calls;
    if (is_sequence(inputs)) {
      const Values items = items_of(inputs);
      if (items.size() == 2 && is_sequence(items[0]) && items[1].isGenericDict())
        calls.push_back({items_of(items[0]), by_name(items[1])});
      calls.push_back({items, {}});
    } else if (inputs.isGenericDict()) {
      calls.push_back({{}, by_name(inputs)});
    }
    if (parameters_.size() == 1) calls.push_back({{inputs}, {}});
    if (calls.empty()) calls.push_back({{inputs}, {}});
    return calls;
  }

  static std::vector<std::pair<std::string, IValue>> by_name(const IValue& dict) {
    std::vector<std::pair<std::string, IValue>> named;
    for (const auto& item : dict.toGenericDict())
      named.emplace_back(item.key().isString() ? item.key().toStringRef() : "?", item.value());
    return named;
  }

  Values bind(const BoundArguments& call) const {
    if (call.args.size() > parameters_.size())
      throw Error(fmt::format("{} inputs are given, but {}", call.args.size(), takes()));
    Values flat(placeholders_.size());
    std::vector<bool> given(placeholders_.size(), false);
    for (std::size_t i = 0; i < call.args.size(); ++i)
      place(parameters_[i], call.args[i], flat, given);
    for (const auto& [name, value] : call.kwargs) place_named(name, value, flat, given);
    for (const Parameter& p : parameters_)
      for (std::size_t i = p.first; i < p.first + p.spec.num_leaves; ++i)
        if (!given[i] && !is_optional(i))
          throw Error(fmt::format("input '{}' is missing: {}",
                                  given_in_part(p, given) ? leaf_name(i) : p.name, takes()));
    return flat;
  }

  // An input that the graph does not read may be missing: torch.export recorded its value as a
  // constant of the exported call.
  bool is_optional(std::size_t leaf) const {
    const NodeId id = placeholders_[leaf];
    return !model_.graph()[id].type && model_.graph().num_users(id) == 0;
  }

  static bool given_in_part(const Parameter& p, const std::vector<bool>& given) {
    const auto first = given.begin() + static_cast<std::ptrdiff_t>(p.first);
    return std::find(first, first + static_cast<std::ptrdiff_t>(p.spec.num_leaves), true) !=
           first + static_cast<std::ptrdiff_t>(p.spec.num_leaves);
  }

  void place_named(const std::string& name, const IValue& value, Values& flat,
                   std::vector<bool>& given) const {
    if (const auto it = by_name_.find(name); it != by_name_.end())
      return place(parameters_[it->second], value, flat, given);
    if (const auto it = leaf_by_name_.find(name); it != leaf_by_name_.end())
      return place({name, TreeSpec{}, it->second}, value, flat, given);
    std::vector<std::string> known;
    for (const Parameter& p : parameters_) known.push_back(p.name);
    throw Error(
        fmt::format("the model has no input '{}': {}{}", name, takes(), did_you_mean(name, known)));
  }

  void place(const Parameter& p, const IValue& value, Values& flat,
             std::vector<bool>& given) const {
    std::size_t next = p.first;
    place(p.spec, value, {.outer = nullptr, .name = p.name}, next, flat, given);
  }

  void place(const TreeSpec& spec, const IValue& value, const ValuePath& at, std::size_t& next,
             Values& flat, std::vector<bool>& given) const {
    if (spec.kind == TreeSpec::NodeKind::leaf) {
      if (given[next]) throw Error(fmt::format("input '{}' is given twice", at.text()));
      given[next] = true;
      flat[next] = fitted(value, at, next);
      ++next;
      return;
    }
    if (value.isGenericDict() && spec.kind == TreeSpec::NodeKind::other)
      if (const auto parts = parts_of_object(spec, value.toGenericDict()))
        return place(spec, *parts, at, next, flat, given);
    if (value.isGenericDict() && !spec.keys.empty())
      return place_dict(spec, value.toGenericDict(), at, next, flat, given);
    if (!is_sequence(value) || spec.kind == TreeSpec::NodeKind::dict) unlike(spec, value, at);
    const Values items = items_of(value);
    if (items.size() != spec.children.size()) unlike(spec, value, at);
    for (std::size_t i = 0; i < items.size(); ++i)
      place(spec.children[i], items[i], {.outer = &at, .name = {}, .index = i}, next, flat, given);
  }

  // The children of an object that was saved by its attributes, if its class flattens to something
  // else than its attributes.
  static std::optional<IValue> parts_of_object(const TreeSpec& spec,
                                               const c10::Dict<IValue, IValue>& attributes) {
    auto has = [&](const TreeSpec::Key& key) { return attributes.contains(key_value(key)); };
    if (!spec.keys.empty() && std::all_of(spec.keys.begin(), spec.keys.end(), has)) return {};
    if (auto caches = key_and_value_caches(spec, attributes)) return caches;
    const auto is_leaf = [](const TreeSpec& part) { return part.kind == TreeSpec::NodeKind::leaf; };
    if (!std::all_of(spec.children.begin(), spec.children.end(), is_leaf)) return {};
    Values tensors;
    collect_tensors(IValue(attributes), tensors);
    if (tensors.size() != spec.children.size()) return {};
    return c10::ivalue::Tuple::create(std::move(tensors));
  }

  // A DynamicCache of transformers: the keys of all its layers, then the values.
  static std::optional<IValue> key_and_value_caches(const TreeSpec& spec,
                                                    const c10::Dict<IValue, IValue>& attributes) {
    const auto layers = attributes.find("layers");
    if (spec.keys.size() != 2 || spec.keys[0].text != "key_cache" ||
        spec.keys[1].text != "value_cache" || layers == attributes.end() ||
        !layers->value().isList())
      return {};
    Values caches;
    for (const char* name : {"keys", "values"}) {
      Values tensors;
      for (const IValue& layer : layers->value().toListRef()) {
        if (!layer.isGenericDict()) return {};
        const auto it = layer.toGenericDict().find(name);
        if (it != layer.toGenericDict().end() && it->value().isTensor())
          tensors.push_back(it->value());
      }
      caches.emplace_back(c10::ivalue::Tuple::create(std::move(tensors)));
    }
    return c10::ivalue::Tuple::create(std::move(caches));
  }

  static void collect_tensors(const IValue& value, Values& tensors) {
    if (value.isTensor()) {
      tensors.push_back(value);
    } else if (is_sequence(value)) {
      for (const IValue& item : items_of(value)) collect_tensors(item, tensors);
    } else if (value.isGenericDict()) {
      for (const auto& item : value.toGenericDict()) collect_tensors(item.value(), tensors);
    }
  }

  void place_dict(const TreeSpec& spec, const c10::Dict<IValue, IValue>& dict, const ValuePath& at,
                  std::size_t& next, Values& flat, std::vector<bool>& given) const {
    for (std::size_t i = 0; i < spec.keys.size(); ++i) {
      const auto it = dict.find(key_value(spec.keys[i]));
      const ValuePath inner{.outer = &at, .name = {}, .key = &spec.keys[i]};
      if (it == dict.end())
        throw Error(fmt::format("input '{}' is missing: '{}' should be {}", inner.text(), at.text(),
                                wanted(spec)));
      place(spec.children[i], it->value(), inner, next, flat, given);
    }
    // An object may have additional attributes if they are None: pytree does not list these.
    std::size_t absent = 0;
    if (spec.kind == TreeSpec::NodeKind::other)
      for (const auto& item : dict) absent += item.value().isNone() && !has_key(spec, item.key());
    if (dict.size() - absent != spec.keys.size()) unlike(spec, IValue(dict), at);
  }

  static bool has_key(const TreeSpec& spec, const IValue& key) {
    return std::any_of(spec.keys.begin(), spec.keys.end(),
                       [&](const TreeSpec::Key& known) { return key_value(known) == key; });
  }

  [[noreturn]] static void unlike(const TreeSpec& spec, const IValue& value, const ValuePath& at) {
    throw Error(
        fmt::format("input '{}' should be {}, not {}", at.text(), wanted(spec), kind_name(value)));
  }

  static std::string wanted(const TreeSpec& spec) {
    std::vector<std::string> keys;
    for (const TreeSpec::Key& key : spec.keys) keys.push_back(quoted(key));
    switch (spec.kind) {
      case TreeSpec::NodeKind::dict:
        return fmt::format("a dict with the keys {}", fmt::join(keys, ", "));
      case TreeSpec::NodeKind::list:
        return fmt::format("a list of {}", spec.children.size());
      case TreeSpec::NodeKind::other:
        return fmt::format("a {}, given as a tuple of {}", spec.type, spec.children.size());
      default:
        return fmt::format("a tuple of {}", spec.children.size());
    }
  }

  // The value converted to what the placeholder takes, on its device.
  IValue fitted(const IValue& value, const ValuePath& at, std::size_t leaf) const {
    const TypePtr& type = model_.graph()[placeholders_[leaf]].type;
    if (!type) return value;
    if (const std::string why = checks_.mismatch(leaf, value); !why.empty())
      throw Error(fmt::format("input '{}'{}", at.text(), why));
    const at::Tensor& tensor = value.toTensor();
    if (type->device.type() == tensor.device().type()) return value;
    try {
      return tensor.to(type->device);
    } catch (const c10::Error&) {
      throw Error(fmt::format("input '{}' must be on {}, which is not available on this machine",
                              at.text(), type->device.str()));
    }
  }

  const Model& model_;
  exec::InputChecks checks_;
  std::vector<NodeId> placeholders_;
  std::vector<Parameter> parameters_;
  std::unordered_map<std::string, std::size_t> by_name_, leaf_by_name_;  // the first of a name
  std::size_t leaves_ = 0;
};

IValue nest(const TreeSpec& spec, const Values& flat, std::size_t& next) {
  if (spec.kind == TreeSpec::NodeKind::leaf) return flat[next++];
  if (spec.kind == TreeSpec::NodeKind::dict) {
    Values both;
    for (std::size_t i = 0; i < spec.keys.size(); ++i) {
      both.push_back(key_value(spec.keys[i]));
      both.push_back(nest(spec.children[i], flat, next));
    }
    return make_dict(c10::AnyType::get(), c10::AnyType::get(), both);
  }
  Values items;
  for (const TreeSpec& child : spec.children) items.push_back(nest(child, flat, next));
  if (spec.kind == TreeSpec::NodeKind::list) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (IValue& item : items) list.push_back(std::move(item));
    return list;
  }
  return c10::ivalue::Tuple::create(std::move(items));
}

class Leaves {
 public:
  void collect(const IValue& value, const std::string& path) {
    if ((text_ += path.size()) > limits::kPathText)
      throw Error(fmt::format("the paths to its values take more than {} bytes; use shorter keys",
                              limits::kPathText));
    if (is_sequence(value)) {
      const Values items = items_of(value);
      for (std::size_t i = 0; i < items.size(); ++i)
        collect(items[i], fmt::format("{}[{}]", path, i));
    } else if (value.isGenericDict()) {
      for (const auto& item : value.toGenericDict())
        collect(item.value(), fmt::format("{}[{}]", path, key_text(item.key())));
    } else {
      all.push_back({path, value});
    }
  }

  std::vector<Leaf> all;

 private:
  static std::string key_text(const IValue& key) {
    return key.isString() ? "'" + key.toStringRef() + "'" : c10::str(key);
  }

  std::size_t text_ = 0;
};

}  // namespace

Values flatten_inputs(const Model& model, const IValue& inputs) {
  return Signature(model).flatten(inputs);
}

std::vector<Values> flatten_calls(const Model& model, const IValue& calls) {
  const Signature signature(model);
  try {
    return {signature.flatten(calls)};
  } catch (const Error&) {
    if (!is_sequence(calls)) throw;
    const Values items = items_of(calls);
    // Report the error of a single call, unless the items look like calls themselves.
    const bool nested =
        !items.empty() && std::all_of(items.begin(), items.end(), [](const IValue& item) {
          return is_sequence(item) || item.isGenericDict();
        });
    if (items.empty() || (!nested && user_placeholders(model).size() != 1)) throw;
    std::vector<Values> all;
    for (const IValue& item : items) {
      try {
        all.push_back(signature.flatten(item));
      } catch (const Error& error) {
        if (!nested) break;
        throw Error(fmt::format("call {}: {}", all.size() + 1, error.what()));
      }
    }
    if (all.size() != items.size()) throw;
    return all;
  }
}

std::vector<std::vector<Values>> flatten_sets(const Model& model, const IValue& sets) {
  std::vector<std::vector<Values>> all;
  try {
    std::vector<Values> calls = flatten_calls(model, sets);
    if (calls.size() == 1 || keeps_state(model)) return {std::move(calls)};
    for (Values& call : calls) all.push_back({std::move(call)});
  } catch (const Error&) {
    const Values items = is_sequence(sets) ? items_of(sets) : Values();
    if (items.empty() || !std::all_of(items.begin(), items.end(), is_sequence)) throw;
    try {
      for (const IValue& item : items) all.push_back(flatten_calls(model, item));
    } catch (const Error& error) {
      throw Error(fmt::format("inputs {}: {}", all.size() + 1, error.what()));
    }
  }
  return all;
}

IValue nest_output(const Model& model, const IValue& flat) {
  const Source* source = model.source().get();
  if (!source || source->output_spec().empty()) return flat;
  const TreeSpec spec = parse_treespec(source->output_spec());
  const Values items = is_sequence(flat) ? items_of(flat) : Values{flat};
  if (spec.num_leaves != items.size())
    throw Error(fmt::format("the file describes {} outputs, but its graph returns {}",
                            spec.num_leaves, items.size()));
  std::size_t next = 0;
  return nest(spec, items, next);
}

std::vector<Leaf> leaves(const IValue& value, const std::string& path) {
  Leaves found;
  found.collect(value, path);
  return std::move(found.all);
}

namespace {

// Values from files are on the CPU. Moves them to the devices that the model expects.
Values placed(const Model& model, Values values) {
  std::size_t i = 0;
  for (NodeId id : user_placeholders(model)) {
    IValue& value = values[i++];
    const TypePtr& type = model.graph()[id].type;
    if (type && value.isTensor() && has_device(type->device))
      value = value.toTensor().to(type->device);
  }
  return values;
}

}  // namespace

std::optional<Values> sample_inputs(const Model& model) {
  const Source* source = model.source().get();
  if (!source || source->sample_inputs().empty()) return std::nullopt;
  const IValue samples =
      parse_values(source->sample_inputs(), source->path() + ": data/sample_inputs/model.pt");
  // torch.export.save writes an empty value where the program has none.
  if (samples.isNone()) return std::nullopt;
  if (is_sequence(samples) && items_of(samples).empty() && !user_placeholders(model).empty())
    return std::nullopt;
  return placed(model, flatten_inputs(model, samples));
}

Inputs::Inputs() = default;
Inputs::Inputs(std::vector<c10::IValue> of_run, std::string from)
    : values(std::move(of_run)), origin(std::move(from)) {}
Inputs::Inputs(const Inputs&) = default;
Inputs::Inputs(Inputs&&) noexcept = default;
Inputs& Inputs::operator=(const Inputs&) = default;
Inputs& Inputs::operator=(Inputs&&) noexcept = default;
Inputs::~Inputs() = default;

Inputs inputs_for(const Model& model, const std::string& path, std::uint64_t seed) {
  if (!path.empty()) {
    try {
      std::vector<Values> calls = flatten_calls(model, read_values(path));
      for (Values& call : calls) call = placed(model, std::move(call));
      Inputs inputs(std::move(calls[0]), "from " + path);
      inputs.next.assign(std::make_move_iterator(calls.begin() + 1),
                         std::make_move_iterator(calls.end()));
      return inputs;
    } catch (const Error& error) {
      const std::string what = error.what();
      throw Error(what.find(path) == what.npos ? path + ": " + what : what);
    }
  }
  if (auto samples = sample_inputs(model)) return {std::move(*samples), "the file's sample inputs"};
  return {generated_inputs(model, seed), fmt::format("generated with seed {}", seed)};
}

}  // namespace refx
