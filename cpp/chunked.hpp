// An append-only array in pieces: growing never copies or doubles what is there, so a builder's peak memory
// is what it holds. Pieces double from 1,024 elements up to 4 MiB.
#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "huge_pages.hpp"

namespace gnomon {

template <class T>
class Chunked {
  public:
    std::size_t size() const { return size_; }

    T& push(T value) {
        if (pieces_.empty() || pieces_.back().used == pieces_.back().room) grow();
        Piece& piece = pieces_.back();
        piece.data[piece.used] = value;
        ++size_;
        return piece.data[piece.used++];
    }

    // fn(const T* data, std::size_t count) for each piece in order.
    template <class Fn>
    void each(const Fn& fn) const {
        for (const Piece& piece : pieces_) fn(static_cast<const T*>(piece.data.get()), piece.used);
    }

    void clear() {
        pieces_.clear();
        size_ = 0;
    }

  private:
    struct Piece {
        std::unique_ptr<T[]> data;
        std::size_t used;
        std::size_t room;
    };

    void grow() {
        constexpr std::size_t kMost = (std::size_t{4} << 20) / sizeof(T);
        const std::size_t room = std::min(kMost, pieces_.empty() ? 1024 : pieces_.back().room * 2);
        pieces_.push_back({std::make_unique_for_overwrite<T[]>(room), 0, room});
        advise_huge_pages(pieces_.back().data.get(), room * sizeof(T));
    }

    std::vector<Piece> pieces_;
    std::size_t size_ = 0;
};

}  // namespace gnomon
