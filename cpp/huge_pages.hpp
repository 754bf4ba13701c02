// Large arrays that are read and written here and there wait for address translation as much as for memory.
// Where the system gives large pages on request only, this is the request.
#pragma once
#include <cstddef>
#include <vector>

namespace gnomon {

// Asks for large pages for what of these bytes may be had in them. Before they are first touched, for pages
// that are there are not exchanged. Never fails: it is advice.
void advise_huge_pages(void* data, std::size_t bytes) noexcept;

// An empty vector with room for n elements, in large pages if they are many.
template <class T>
std::vector<T> roomy(std::size_t n) {
    std::vector<T> made;
    made.reserve(n);
    advise_huge_pages(made.data(), n * sizeof(T));
    return made;
}

}  // namespace gnomon
