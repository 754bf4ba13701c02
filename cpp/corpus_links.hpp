// Where a link leads: the node of its target.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace gnomon {

// The node of an address as a page in `folder` spells it, "" for none: as `_target` of
// gnomon.corpus.relations. Nothing where only that can say: an address that is not ASCII or has "%", a folder
// at the root.
std::optional<std::string> link_target(std::string_view folder, std::string_view url);

}  // namespace gnomon
