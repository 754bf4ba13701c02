#include "bm25_merge.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "error.hpp"
#include "parallel.hpp"

namespace gnomon {
namespace {

constexpr std::uint32_t kGone = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kTermsAtOnce = 4096;  // of one thread
constexpr std::size_t kBuffer = 64 * 1024;  // elements between two appends to a file

// Where the postings of each term of the result come from.
class MergePlan {
  public:
    explicit MergePlan(std::span<const SegmentView> inputs);

    std::size_t n_docs() const { return n_docs_; }
    std::size_t n_terms() const { return starts_.size() - 1; }
    std::size_t n_fields() const { return inputs_[0].segment->n_fields(); }
    bool has_vocabulary() const { return inputs_[0].segment->has_vocabulary(); }
    bool has_positions() const { return inputs_[0].segment->has_positions(); }
    std::optional<Vocabulary> take_vocabulary() {
        if (!has_vocabulary()) return std::nullopt;
        return Vocabulary(std::move(vocabulary_));
    }

    std::vector<std::uint32_t> lengths(std::size_t field) const;
    std::uint64_t df(std::size_t term, std::size_t field) const;
    bool wide(std::size_t term, std::size_t field) const;
    // fn(doc, tf) for each live posting of a term, documents ascending.
    template <class Fn>
    void each(std::size_t term, std::size_t field, const Fn& fn) const {
        for (std::uint64_t s = starts_[term]; s < starts_[term + 1]; ++s) {
            const std::vector<std::uint32_t>& renumbered = renumbered_[sources_[s].input];
            const Postings list = inputs_[sources_[s].input].segment->postings(sources_[s].term, field);
            for (std::size_t i = 0; i < list.docs.size(); ++i)
                if (const std::uint32_t doc = renumbered[list.docs[i]]; doc != kGone) fn(doc, list.tf(i));
        }
    }

    // fn(bytes) for the positions of each live posting of a term, as they are stored, in the same order.
    template <class Fn>
    void each_positions(std::size_t term, std::size_t field, const Fn& fn) const {
        for (std::uint64_t s = starts_[term]; s < starts_[term + 1]; ++s) {
            const SegmentView& view = inputs_[sources_[s].input];
            const Postings list = view.segment->postings(sources_[s].term, field);
            if (list.docs.empty()) continue;
            PositionsCursor cursor = view.segment->positions(sources_[s].term, list, field);
            for (std::size_t i = 0; i < list.docs.size(); ++i)
                if (view.live(list.docs[i])) fn(cursor.raw(i));
        }
    }

  private:
    struct Source {
        std::uint32_t input;
        std::uint32_t term;
    };
    void number_documents();
    void number_terms();
    bool any_live(const SegmentView& view, std::uint32_t term) const;

    std::span<const SegmentView> inputs_;
    std::vector<std::vector<std::uint32_t>> renumbered_;  // by input and document
    std::size_t n_docs_ = 0;
    VocabularyBuilder vocabulary_;
    std::vector<std::uint64_t> starts_;  // into sources_, by term
    std::vector<Source> sources_;        // of one term in the order of the inputs
};

MergePlan::MergePlan(std::span<const SegmentView> inputs) : inputs_(inputs) {
    require(!inputs.empty(), "there must be a segment to merge");
    for (const SegmentView& view : inputs) {
        require(view.segment->n_fields() == n_fields(), "segments must have the same fields");
        require(view.segment->has_vocabulary() == has_vocabulary(),
                "segments of token ids and segments of tokens cannot be merged");
        require(view.segment->has_positions() == has_positions(),
                "segments with and without positions cannot be merged");
        require(view.dead == nullptr || view.dead->n_docs() == view.segment->n_docs(),
                "the deletions of a segment must cover its documents");
    }
    number_documents();
    number_terms();
}

void MergePlan::number_documents() {
    for (const SegmentView& view : inputs_) {
        std::vector<std::uint32_t> numbers(view.segment->n_docs());
        for (std::uint32_t doc = 0; doc < numbers.size(); ++doc) {
            if (n_docs_ >= kGone - 1)
                throw InvalidInput("an index holds at most 4,294,967,294 documents; shard it");
            numbers[doc] = view.live(doc) ? static_cast<std::uint32_t>(n_docs_++) : kGone;
        }
        renumbered_.push_back(std::move(numbers));
    }
}

bool MergePlan::any_live(const SegmentView& view, std::uint32_t term) const {
    for (std::size_t field = 0; field < n_fields(); ++field)
        for (const std::uint32_t doc : view.segment->postings(term, field).docs)
            if (view.live(doc)) return true;
    return false;
}

void MergePlan::number_terms() {
    std::vector<std::vector<std::uint32_t>> numbers;  // by input and its term
    std::size_t n_terms = 0;
    for (const SegmentView& view : inputs_) {
        std::vector<std::uint32_t> own(view.segment->n_terms());
        for (std::uint32_t term = 0; term < own.size(); ++term) {
            if (!has_vocabulary())
                own[term] = term;
            else if (view.dead == nullptr || any_live(view, term))
                own[term] = vocabulary_.intern(view.segment->vocabulary().term(term));
            else
                own[term] = kGone;
        }
        n_terms = std::max(n_terms, own.size());
        numbers.push_back(std::move(own));
    }
    if (has_vocabulary()) n_terms = vocabulary_.size();
    starts_.assign(n_terms + 1, 0);
    for (const auto& own : numbers)
        for (const std::uint32_t number : own)
            if (number != kGone) ++starts_[number + 1];
    for (std::size_t term = 0; term < n_terms; ++term) starts_[term + 1] += starts_[term];
    sources_.resize(starts_.back());
    std::vector<std::uint64_t> next(starts_.begin(), starts_.end() - 1);
    for (std::uint32_t input = 0; input < numbers.size(); ++input) {
        for (std::uint32_t term = 0; term < numbers[input].size(); ++term)
            if (numbers[input][term] != kGone) sources_[next[numbers[input][term]]++] = {input, term};
        numbers[input] = {};
    }
}

std::vector<std::uint32_t> MergePlan::lengths(std::size_t field) const {
    std::vector<std::uint32_t> lengths;
    lengths.reserve(n_docs_);
    for (std::size_t input = 0; input < inputs_.size(); ++input) {
        const std::span<const std::uint32_t> all = inputs_[input].segment->lengths(field);
        for (std::size_t doc = 0; doc < all.size(); ++doc)
            if (renumbered_[input][doc] != kGone) lengths.push_back(all[doc]);
    }
    return lengths;
}

std::uint64_t MergePlan::df(std::size_t term, std::size_t field) const {
    std::uint64_t df = 0;
    for (std::uint64_t s = starts_[term]; s < starts_[term + 1]; ++s) {
        const SegmentView& view = inputs_[sources_[s].input];
        if (view.dead == nullptr) {
            df += view.segment->count(sources_[s].term, field);
            continue;
        }
        const Postings list = view.segment->postings(sources_[s].term, field);
        for (const std::uint32_t doc : list.docs) df += view.live(doc) ? 1 : 0;
    }
    return df;
}

bool MergePlan::wide(std::size_t term, std::size_t field) const {
    bool candidate = false;
    for (std::uint64_t s = starts_[term]; s < starts_[term + 1]; ++s)
        candidate =
            candidate || !inputs_[sources_[s].input].segment->postings(sources_[s].term, field).wide.empty();
    std::uint32_t most = 0;
    if (candidate) each(term, field, [&](std::uint32_t, std::uint32_t tf) { most = std::max(most, tf); });
    return most > Bm25Field::kWide;
}

// One term range of every pass, with the numbers that all of them need.
struct FieldCounts {
    std::vector<std::uint64_t> starts;  // by term, one more than there are terms
    std::vector<std::uint32_t> wide_terms;
    std::vector<std::uint64_t> wide_starts;
};

template <class Fn>
void each_range(std::size_t threads, std::size_t n_terms, const Fn& fn) {
    parallel_for(threads, (n_terms + kTermsAtOnce - 1) / kTermsAtOnce, [&](std::size_t, std::size_t range) {
        fn(range * kTermsAtOnce, std::min(n_terms, (range + 1) * kTermsAtOnce));
    });
}

// Packed lists have no wide terms.
FieldCounts count(const MergePlan& plan, std::size_t field, std::size_t threads, bool packed) {
    FieldCounts counts;
    counts.starts.assign(plan.n_terms() + 1, 0);
    std::vector<std::uint8_t> wide(plan.n_terms());
    each_range(threads, plan.n_terms(), [&](std::size_t first, std::size_t last) {
        for (std::size_t term = first; term < last; ++term) {
            counts.starts[term + 1] = plan.df(term, field);
            wide[term] = !packed && plan.wide(term, field) ? 1 : 0;
        }
    });
    counts.wide_starts.push_back(0);
    for (std::size_t term = 0; term < plan.n_terms(); ++term) {
        if (wide[term] != 0) {
            counts.wide_terms.push_back(static_cast<std::uint32_t>(term));
            counts.wide_starts.push_back(counts.wide_starts.back() + counts.starts[term + 1]);
        }
        counts.starts[term + 1] += counts.starts[term];
    }
    return counts;
}

std::uint8_t narrow(std::uint32_t tf) { return static_cast<std::uint8_t>(std::min(tf, Bm25Field::kWide)); }

std::shared_ptr<const Bm25Positions> merged_positions(const MergePlan& plan, std::size_t field) {
    PositionsEncoder encoder;
    for (std::size_t term = 0; term < plan.n_terms(); ++term) {
        plan.each_positions(term, field, [&](std::span<const std::uint8_t> raw) { encoder.add_raw(raw); });
        encoder.end_term();
    }
    return encoder.finish();
}

// The bytes leave term by term; 8 bytes a term stay in memory.
void write_positions(const MergePlan& plan, std::size_t field, ContainerWriter& writer, bool packed) {
    PositionsEncoder encoder;
    writer.begin(field_section(field, "pos_bytes"), Dtype::u8);
    for (std::size_t term = 0; term < plan.n_terms(); ++term) {
        plan.each_positions(term, field, [&](std::span<const std::uint8_t> raw) { encoder.add_raw(raw); });
        encoder.end_term();
        if (encoder.pending() < kBuffer && term + 1 < plan.n_terms()) continue;
        const std::vector<std::uint8_t> bytes = encoder.drain();
        writer.append(bytes.data(), bytes.size());
    }
    writer.end();
    const std::vector<std::uint64_t> starts = encoder.take_starts();
    if (packed)
        PackedDirectory::write(writer, field_section(field, "pos"), starts);
    else
        writer.section(field_section(field, "pos_starts"), std::span<const std::uint64_t>(starts));
}

Bm25Field merged_field(const MergePlan& plan, std::size_t field, std::size_t threads) {
    FieldCounts counts = count(plan, field, threads, false);
    std::vector<std::uint32_t> docs(counts.starts.back());
    std::vector<std::uint8_t> tfs(counts.starts.back());
    each_range(threads, plan.n_terms(), [&](std::size_t first, std::size_t last) {
        for (std::size_t term = first; term < last; ++term) {
            std::uint64_t place = counts.starts[term];
            plan.each(term, field, [&](std::uint32_t doc, std::uint32_t tf) {
                docs[place] = doc;
                tfs[place++] = narrow(tf);
            });
        }
    });
    std::vector<std::uint32_t> wide_tfs;
    wide_tfs.reserve(counts.wide_starts.back());
    for (const std::uint32_t term : counts.wide_terms)
        plan.each(term, field, [&](std::uint32_t, std::uint32_t tf) { wide_tfs.push_back(tf); });
    Bm25Field out;
    out.lengths = Column<std::uint32_t>::of(plan.lengths(field));
    for (const std::uint32_t dl : out.lengths.span()) out.n_tokens += dl;
    out.starts = Column<std::uint64_t>::of(std::move(counts.starts));
    out.docs = Column<std::uint32_t>::of(std::move(docs));
    out.tfs = Column<std::uint8_t>::of(std::move(tfs));
    out.wide_terms = Column<std::uint32_t>::of(std::move(counts.wide_terms));
    out.wide_starts = Column<std::uint64_t>::of(std::move(counts.wide_starts));
    out.wide_tfs = Column<std::uint32_t>::of(std::move(wide_tfs));
    if (plan.has_positions()) out.positions = merged_positions(plan, field);
    return out;
}

// Values one by one into a section of a file.
template <class T>
class Stream {
  public:
    Stream(ContainerWriter& writer, const std::string& name) : writer_(writer) {
        writer_.begin(name, dtype_of<T>());
        buffer_.reserve(kBuffer);
    }
    void push(T value) {
        buffer_.push_back(value);
        if (buffer_.size() == kBuffer) flush();
    }
    void end() {
        flush();
        writer_.end();
    }

  private:
    void flush() {
        writer_.append(buffer_.data(), buffer_.size() * sizeof(T));
        buffer_.clear();
    }
    ContainerWriter& writer_;
    std::vector<T> buffer_;
};

void write_field(const MergePlan& plan, std::size_t field, const FieldCounts& counts,
                 const std::vector<std::uint32_t>& lengths, ContainerWriter& writer) {
    const auto section = [&](const char* name, const auto& values) {
        writer.section(field_section(field, name), std::span(values));
    };
    section("lengths", lengths);
    section("starts", counts.starts);
    Stream<std::uint32_t> docs(writer, field_section(field, "docs"));
    for (std::size_t term = 0; term < plan.n_terms(); ++term)
        plan.each(term, field, [&](std::uint32_t doc, std::uint32_t) { docs.push(doc); });
    docs.end();
    Stream<std::uint8_t> tfs(writer, field_section(field, "tfs"));
    for (std::size_t term = 0; term < plan.n_terms(); ++term)
        plan.each(term, field, [&](std::uint32_t, std::uint32_t tf) { tfs.push(narrow(tf)); });
    tfs.end();
    section("wide_terms", counts.wide_terms);
    section("wide_starts", counts.wide_starts);
    Stream<std::uint32_t> wide(writer, field_section(field, "wide_tfs"));
    for (const std::uint32_t term : counts.wide_terms)
        plan.each(term, field, [&](std::uint32_t, std::uint32_t tf) { wide.push(tf); });
    wide.end();
    if (plan.has_positions()) write_positions(plan, field, writer, false);
}

void write_packed_field(const MergePlan& plan, std::size_t field, const std::vector<std::uint32_t>& lengths,
                        ContainerWriter& writer) {
    writer.section(field_section(field, "lengths"), std::span(lengths));
    PackedWriter lists(writer, field_section(field, "lists"));
    for (std::size_t term = 0; term < plan.n_terms(); ++term) {
        plan.each(term, field, [&](std::uint32_t doc, std::uint32_t tf) { lists.add(doc, tf); });
        lists.end_term();
    }
    lists.end();
    if (plan.has_positions()) write_positions(plan, field, writer, true);
}

}  // namespace

std::shared_ptr<const Bm25Index> merge_segments(std::span<const SegmentView> inputs, std::size_t threads) {
    MergePlan plan(inputs);
    std::vector<Bm25Field> fields;
    for (std::size_t field = 0; field < plan.n_fields(); ++field)
        fields.push_back(merged_field(plan, field, threads));
    return Bm25Index::of(std::move(fields), plan.take_vocabulary());
}

void merge_segments_to(std::span<const SegmentView> inputs, ContainerWriter& writer, bool packed) {
    MergePlan plan(inputs);
    std::vector<std::vector<std::uint32_t>> lengths;
    std::vector<FieldCounts> counts;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> totals;
    for (std::size_t field = 0; field < plan.n_fields(); ++field) {
        counts.push_back(count(plan, field, 1, packed));
        lengths.push_back(plan.lengths(field));
        std::uint64_t tokens = 0;
        for (const std::uint32_t dl : lengths.back()) tokens += dl;
        totals.emplace_back(tokens, counts.back().starts.back());
    }
    Bm25Index::write_head(writer, packed ? Bm25Index::kPacked : Bm25Index::kPlain, plan.n_docs(),
                          plan.n_terms(), totals);
    for (std::size_t field = 0; field < plan.n_fields(); ++field)
        if (packed)
            write_packed_field(plan, field, lengths[field], writer);
        else
            write_field(plan, field, counts[field], lengths[field], writer);
    if (const auto vocabulary = plan.take_vocabulary()) vocabulary->write(writer);
}

}  // namespace gnomon
