#pragma once

// Data that is too large for the repository.

#include <filesystem>
#include <optional>
#include <string_view>

namespace lathe::test {

// The folder of that name under $LATHE_DATA, or under ../shared/data beside the source tree. Where there is
// none, the running test case counts as skipped, and the caller returns.
std::optional<std::filesystem::path> data_folder(std::string_view name);

}  // namespace lathe::test
