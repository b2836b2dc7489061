// Deflate data, raw and in gzip files. The only place that knows zlib.
#pragma once
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lathe {

bool is_gzip(std::span<const std::byte> bytes);

// The content of a gzip file of one or more members; an error when it is broken, cut off or longer than
// `max_bytes`. `where` names the input in errors.
Result<std::string> gunzip(std::span<const std::byte> bytes, size_t max_bytes, std::string_view where);

// The content of raw deflate data; an error when it is broken, cut off, followed by more, or when its length
// is not `size`.
Result<std::string> inflate_raw(std::span<const std::byte> bytes, uint64_t size, std::string_view where);

std::string deflate_raw(std::span<const std::byte> bytes);

uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace lathe
