// SPDX-License-Identifier: Apache-2.0

#include "refx/name.h"

#define XXH_INLINE_ALL  // names are short
#include <xxhash.h>

#include <cstring>
#include <limits>
#include <new>
#include <ostream>

#include "refx/error.h"

namespace refx {

std::size_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

Name::Name(std::string_view text) {
  if (text.empty()) return;
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) throw Error("a name is too long");
  void* memory = ::operator new(sizeof(Text) + text.size());
  text_ = new (memory) Text{1, static_cast<std::uint32_t>(text.size()), hash_of(text)};
  std::memcpy(static_cast<char*>(memory) + sizeof(Text), text.data(), text.size());
}

void Name::destroy(Text* text) {
  text->~Text();
  ::operator delete(text);
}

std::ostream& operator<<(std::ostream& out, const Name& name) { return out << name.view(); }

}  // namespace refx
