#include "bm25_snapshot.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "error.hpp"

namespace gnomon {

std::shared_ptr<const Bm25Snapshot> Bm25Snapshot::of(std::vector<SegmentView> segments) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max() - 1;
    auto snapshot = std::make_shared<Bm25Snapshot>();
    if (!segments.empty()) snapshot->n_tokens_.assign(segments.front().segment->n_fields(), 0);
    for (SegmentView& view : segments) {
        const Bm25Index& segment = *view.segment;
        require(view.dead == nullptr || view.dead->n_docs() == segment.n_docs(),
                "the deletions of a segment must cover its documents");
        require(&view == &segments.front() || segment.has_vocabulary() == snapshot->has_vocabulary_,
                "segments of token ids and segments of tokens cannot be searched together");
        require(segment.n_fields() == snapshot->n_fields(), "segments must have the same fields");
        snapshot->has_vocabulary_ = segment.has_vocabulary();
        view.base = snapshot->n_slots_;
        snapshot->n_slots_ += segment.n_docs();
        snapshot->n_docs_ += segment.n_docs() - (view.dead == nullptr ? 0 : view.dead->count());
        for (std::size_t field = 0; field < segment.n_fields(); ++field) {
            snapshot->n_tokens_[field] += segment.n_tokens(field);
            if (view.dead == nullptr) continue;
            view.dead->each(
                [&](std::uint32_t doc) { snapshot->n_tokens_[field] -= segment.length(doc, field); });
        }
    }
    if (snapshot->n_slots_ > kMost)
        throw InvalidInput("an index holds at most 4,294,967,294 documents, deleted ones included; merge it");
    snapshot->segments_ = std::move(segments);
    return snapshot;
}

std::uint64_t Bm25Snapshot::n_terms() const {
    std::uint64_t n = 0;
    for (std::size_t i = 0; i < segments_.size(); ++i) {
        const Bm25Index& segment = *segments_[i].segment;
        if (!has_vocabulary_ || i == 0) {
            n = std::max(n, segment.n_terms());
            continue;
        }
        for (std::uint32_t term = 0; term < segment.n_terms(); ++term) {
            const std::string_view text = segment.vocabulary().term(term);
            const bool known =
                std::any_of(segments_.begin(), segments_.begin() + static_cast<std::ptrdiff_t>(i),
                            [&](const SegmentView& earlier) {
                                return earlier.segment->vocabulary().find(text).has_value();
                            });
            n += known ? 0 : 1;
        }
    }
    return n;
}

TermRef Bm25Snapshot::find(std::string_view token) const {
    TermRef term;
    for (const SegmentView& view : segments_)
        term.by_segment.push_back(view.segment->vocabulary().find(token));
    return term;
}

TermRef Bm25Snapshot::find(std::uint32_t id) const {
    TermRef term;
    for (const SegmentView& view : segments_)
        term.by_segment.push_back(id < view.segment->n_terms() ? std::optional(id) : std::nullopt);
    return term;
}

std::uint64_t Bm25Snapshot::df(const TermRef& term) const {
    std::uint64_t df = 0;
    for (std::size_t i = 0; i < segments_.size(); ++i) {
        if (!term.by_segment[i]) continue;
        const Bm25Index& segment = *segments_[i].segment;
        if (segments_[i].dead == nullptr) {
            df += segment.df(*term.by_segment[i]);
            continue;
        }
        if (segment.n_fields() == 1) {
            for (const std::uint32_t doc : segment.postings(*term.by_segment[i]).docs)
                df += segments_[i].live(doc) ? 1 : 0;
            continue;
        }
        DocSet holders(segment.n_docs());
        for (std::size_t field = 0; field < segment.n_fields(); ++field)
            for (const std::uint32_t doc : segment.postings(*term.by_segment[i], field).docs)
                if (segments_[i].live(doc) && !holders.has(doc)) {
                    holders.add(doc);
                    ++df;
                }
    }
    return df;
}

}  // namespace gnomon
