#include "corpus_links.hpp"

#include <algorithm>
#include <vector>

namespace gnomon {
namespace {

using std::string_view;

constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether it begins with a scheme: letters, digits and "+.-" up to a colon.
bool has_scheme(string_view url) {
    if (url.empty() || !is_letter(url[0])) return false;
    const auto end = std::find_if_not(url.begin(), url.end(), [](char c) {
        return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '.' || c == '-';
    });
    return end != url.end() && *end == ':';
}

bool starts_lowered(string_view url, string_view start) {
    return url.size() >= start.size() &&
           std::equal(start.begin(), start.end(), url.begin(), [](char a, char b) {
               return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b);
           });
}

// posixpath.normpath of a path that does not begin with "/".
std::string normal_path(string_view path) {
    std::vector<string_view> parts;
    while (!path.empty()) {
        const string_view part = path.substr(0, path.find('/'));
        path.remove_prefix(std::min(part.size() + 1, path.size()));
        if (part.empty() || part == ".") continue;
        if (part != ".." || parts.empty() || parts.back() == "..")
            parts.push_back(part);
        else
            parts.pop_back();
    }
    std::string joined;
    for (const string_view part : parts) {
        if (!joined.empty()) joined += '/';
        joined += part;
    }
    return joined.empty() ? "." : joined;
}

}  // namespace

std::optional<std::string> link_target(string_view folder, string_view url) {
    const auto odd = [](char c) { return static_cast<unsigned char>(c) >= 0x80 || c == '%'; };
    if (folder.starts_with('/') || std::any_of(url.begin(), url.end(), odd)) return std::nullopt;
    if (url.empty() || starts_lowered(url, "data:") || starts_lowered(url, "javascript:")) return "";
    if (has_scheme(url) || url.starts_with("//")) return "url:" + std::string(url);
    const std::size_t hash = url.find('#');
    string_view place = url.substr(0, hash);
    const string_view anchor = hash == string_view::npos ? string_view() : url.substr(hash + 1);
    place = place.substr(0, place.find('?'));
    std::string full;
    if (place.starts_with('/')) {
        place.remove_prefix(std::min(place.find_first_not_of('/'), place.size()));
        full = place;
    } else {
        full = folder;
        if (!full.empty() && full.back() != '/') full += '/';
        full += place;
    }
    std::string node = "path:" + normal_path(full);
    if (!anchor.empty()) node.append("#").append(anchor);
    return node;
}

}  // namespace gnomon
