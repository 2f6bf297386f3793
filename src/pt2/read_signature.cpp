// SPDX-License-Identifier: Apache-2.0

#include "pt2/read_signature.h"

namespace refx {

namespace {

GraphReader::InputSpec input_spec(ondemand::object object, StateRoles& roles) {
  GraphReader::InputSpec spec;
  spec.text = slice(object);
  for (auto field : object) {
    const std::string_view kind = field.unescaped_key();
    ondemand::object inner = field.value().get_object();
    const char* name = kind == "parameter"         ? "parameter_name"
                       : kind == "buffer"          ? "buffer_name"
                       : kind == "tensor_constant" ? "tensor_constant_name"
                       : kind == "custom_obj"      ? "custom_obj_name"
                                                   : nullptr;
    if (name) {
      spec.state = std::string(inner[name].get_string().value());
      if (kind == "buffer" && !inner["persistent"].get_bool().value())
        roles[spec.state] = StateRole::other_buffer;
      else
        roles[spec.state] = kind == "parameter" ? StateRole::parameter
                            : kind == "buffer"  ? StateRole::buffer
                                                : StateRole::constant;
    } else if (kind == "constant_input") {
      spec.constant = std::string(inner["name"].get_string().value());
    }
  }
  return spec;
}

}  // namespace

ProgramSignature read_signature(JsonDocument& document, ondemand::object& module,
                                Pt2Source& source) {
  ProgramSignature out;
  const Trail::Step step(document.trail, "signature");
  ondemand::object signature = module["signature"].get_object();
  {
    const Trail::Step in(document.trail, "input_specs");
    ondemand::array array = signature["input_specs"].get_array();
    // save() writes the parts that no step changed with their original text.
    source.parts.input_specs = slice(array);
    for (ondemand::value item : array) {
      const Trail::Step at(document.trail, out.inputs.size());
      out.inputs.push_back(input_spec(item.get_object(), out.roles));
    }
  }
  const Trail::Step in(document.trail, "output_specs");
  ondemand::array array = signature["output_specs"].get_array();
  source.parts.output_specs = slice(array);
  std::size_t position = 0;
  for (ondemand::value item : array) {
    const Trail::Step at(document.trail, position);
    for (auto field : item.get_object()) {
      const std::string_view kind = field.unescaped_key();
      ondemand::object spec = field.value().get_object();
      const char* target = kind == "buffer_mutation"       ? "buffer_name"
                           : kind == "parameter_mutation"  ? "parameter_name"
                           : kind == "user_input_mutation" ? "user_input_name"
                                                           : nullptr;
      if (target)
        source.mutations.push_back({position, std::string(spec[target].get_string().value())});
    }
    ++position;
  }
  out.outputs = position;
  return out;
}

}  // namespace refx
