// Porter's stemmer (Program 14(3), 1980, with the two departures of its author's own program). The
// specification is python/gnomon/reference/porter.py.
#pragma once
#include <string>
#include <string_view>

namespace gnomon {

// The stem of a word in lower case, UTF-8. Linear in its length.
std::string porter_stem(std::string_view word);

}  // namespace gnomon
