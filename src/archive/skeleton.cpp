// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include "archive/output_file.h"
#include "archive/writer.h"
#include "refx/error.h"

namespace refx {

void write_from_skeleton(const std::string& path, std::string_view skeleton,
                         const std::vector<Record>& records, const std::vector<Blob>& data) {
  const auto fail = [&](const std::string& what) {
    throw Error(fmt::format("cannot write {}: {}; {} is unchanged", path, what, path));
  };
  if (records.size() != data.size())
    fail(fmt::format("{} records need as many contents, not {}", records.size(), data.size()));
  Output out(path);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    if (record.offset < out.position() || record.offset - out.position() > skeleton.size())
      fail(fmt::format("record '{}' cannot be at {}", record.name, record.offset));
    const std::uint64_t gap = record.offset - out.position();
    out.write(skeleton.substr(0, gap));
    skeleton.remove_prefix(gap);
    if (data[i].size() != record.size)
      fail(fmt::format("record '{}' has {} bytes, should have {}", record.name, data[i].size(),
                       record.size));
    const std::uint32_t crc = out.write(data[i]);
    if (crc != record.crc)
      fail(fmt::format("record '{}' has CRC-32 {:08x}, should have {:08x}", record.name, crc,
                       record.crc));
  }
  out.write(skeleton);
  const int file = out.flushed();
  std::shared_ptr<const Archive> written;
  try {
    written = Archive::open(path, file);
  } catch (const Error& error) {
    fail(fmt::format("what is kept of it makes no archive ({})", error.what()));
  }
  if (written->records() != records) fail("what is kept of it makes an archive of other records");
  out.commit();
}

}  // namespace refx
