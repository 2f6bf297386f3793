// SPDX-License-Identifier: Apache-2.0

#include "mutate_json.h"

namespace refx::testing {

namespace {

class Mutator {
 public:
  Mutator(Json& root, std::minstd_rand& random) : random_(random) { collect(root); }

  void mutate(const std::function<std::string(std::string_view)>& mutate_text) {
    Json& value = *of(all_);
    if (value.items.size() + value.fields.size() > 0 && below(3)) {
      if (value.kind == Json::Kind::list)
        change_members(value.items);
      else
        change_fields(value.fields);
      return;
    }
    const std::size_t what = below(20);
    if (what < 9)
      become(value, same_kind(value));
    else if (what < 12 && value.kind == Json::Kind::text && mutate_text)
      value.text = mutate_text(value.text);
    else if (what == 19)
      value = Json::nest(below(3) ? 1 : 600);
    else
      value = strange();
  }

 private:
  void collect(Json& json) {
    all_.push_back(&json);
    for (Json& item : json.items) collect(item);
    for (auto& [key, value] : json.fields) collect(value);
  }

  std::size_t below(std::size_t limit) { return random_() / 7 % limit; }
  template <class T>
  T& of(std::vector<T>& items) {
    return items[below(items.size())];
  }

  static void become(Json& value, Json other) { value = std::move(other); }

  const Json& same_kind(const Json& value) {
    std::vector<Json*> same;
    for (Json* other : all_)
      if (other->kind == value.kind) same.push_back(other);
    return *of(same);
  }

  template <class T>
  void change_members(std::vector<T>& members) {
    const std::size_t i = below(members.size()), j = below(members.size());
    switch (below(3)) {
      case 0:
        members.erase(members.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      case 1: {
        T copy = members[i];
        members.insert(members.begin() + static_cast<std::ptrdiff_t>(j), std::move(copy));
        break;
      }
      default:
        std::swap(members[i], members[j]);
    }
  }

  void change_fields(std::vector<Json::Field>& fields) {
    auto &a = of(fields), &b = of(fields);
    switch (below(5)) {
      case 0:
        a.first = b.first;
        break;
      case 1:
        std::swap(a.second, b.second);
        break;
      case 2:
        become(a.second, *of(all_));
        break;
      default:
        change_members(fields);
    }
  }

  Json strange() {
    static std::vector<std::string> scalars = {"0",
                                               "1",
                                               "-1",
                                               "2",
                                               "7",
                                               "63",
                                               "64",
                                               "127",
                                               "200",
                                               "255",
                                               "9999",
                                               "2147483647",
                                               "2147483648",
                                               "4294967295",
                                               "4294967296",
                                               "9223372036854775807",
                                               "-9223372036854775808",
                                               "18446744073709551615",
                                               "1e308",
                                               "1.5",
                                               "-0.0",
                                               "true",
                                               "false",
                                               "null"};
    static std::vector<std::string> texts = {"",
                                             "x",
                                             "../x",
                                             "\x1b[2J\n",
                                             "NaN",
                                             "Infinity",
                                             "s0*s0",
                                             "cuda:99",
                                             "meta",
                                             "changed",
                                             "placeholder",
                                             "output",
                                             "parameter",
                                             "constant",
                                             "merge-linears",
                                             "operator.getitem",
                                             "aten.linear.default",
                                             "aten.topk.default",
                                             "\xf0\x9f\x98\x80"};
    switch (below(4)) {
      case 0:
        return Json::quoted(of(texts));
      case 1:
        return {below(2) ? Json::Kind::list : Json::Kind::object, "", {}, {}};
      default:
        return Json::scalar(of(scalars));
    }
  }

  std::minstd_rand& random_;
  std::vector<Json*> all_;
};

}  // namespace

void mutate(Json& json, std::minstd_rand& random,
            const std::function<std::string(std::string_view)>& mutate_text) {
  Mutator(json, random).mutate(mutate_text);
}

}  // namespace refx::testing
