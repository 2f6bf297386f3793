#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace refx::fuzz {

// A folder of this process in memory, where the system has such a place.
const std::filesystem::path& scratch();
// Puts bytes there; the file's path.
std::string put(std::string_view name, std::string_view bytes);
std::string get(const std::string& path);

}  // namespace refx::fuzz
