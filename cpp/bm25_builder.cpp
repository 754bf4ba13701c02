#include "bm25_builder.hpp"

#include <algorithm>
#include <limits>

#include "error.hpp"
#include "huge_pages.hpp"

namespace gnomon {

namespace {
constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
}  // namespace

Bm25Builder::Bm25Builder(bool with_vocabulary, std::size_t n_fields, bool with_positions)
    : with_vocabulary_(with_vocabulary), with_positions_(with_positions) {
    require(n_fields >= 1 && n_fields <= Bm25Index::kFieldsMost, "an index has 1 to 255 fields");
    fields_.resize(n_fields);
    now_ = fields_.data();
}

void Bm25Builder::add_text(Preset preset, TextView cased, TextView lowered) {
    const auto ahead = [this](std::uint32_t term) { prefetch(term); };
    const auto done = [this](std::uint32_t term) { add_term(term); };
    InternBatch batch(vocabulary_);
    auto each = [&](std::string_view token) { batch.push(token, ahead, done); };
    const auto sink = [](void* context, const Token& token) {
        (*static_cast<decltype(each)*>(context))(token.text);
    };
    tokenize(preset, cased, lowered, sink, &each);
    batch.flush(ahead, done);
}

// To hold `id`. Throws InvalidInput when no index can.
void Bm25Builder::grow_terms(Field& field, std::uint32_t id) {
    if (id == kMost) throw InvalidInput("token ids must be below 4,294,967,295");
    const std::size_t needed = static_cast<std::size_t>(id) + 1;
    if (needed > field.terms.capacity()) {
        std::vector<Term> terms = roomy<Term>(std::max(needed, 2 * field.terms.capacity()));
        terms.assign(field.terms.begin(), field.terms.end());
        field.terms.swap(terms);
    }
    field.terms.resize(needed);
}

void Bm25Builder::end_document() {
    if (n_docs() >= kMost - 1) throw InvalidInput("an index holds at most 4,294,967,294 documents; shard it");
    for (const Field& field : fields_)
        if (field.length >= kMost)
            throw InvalidInput("a document holds at most 4,294,967,294 tokens; split it");
    for (Field& field : fields_) {
        field.lengths.push_back(static_cast<std::uint32_t>(field.length));
        field.distinct.push_back(field.distinct_now);
        field.n_tokens += field.length;
        field.length = 0;
        field.distinct_now = 0;
    }
    now_ = fields_.data();
}

std::uint64_t Bm25Builder::n_tokens() const {
    std::uint64_t tokens = 0;
    for (const Field& field : fields_) tokens += field.n_tokens;
    return tokens;
}

std::uint64_t Bm25Builder::memory() const {
    constexpr std::uint64_t kTerm = sizeof(Term) + 2 * sizeof(std::uint64_t);  // and where it starts, twice
    std::uint64_t bytes = vocabulary_.memory();
    for (const Field& field : fields_)
        bytes += field.postings.size() * (sizeof(Posting) + 5) + field.terms.capacity() * kTerm +
                 field.lengths.capacity() * 8 + field.positions.memory();
    return bytes;
}

// A counting sort by term keeps the order of documents within each term.
Bm25Field Bm25Builder::sorted(Field& field, std::size_t n_terms) {
    std::vector<std::uint64_t> starts(n_terms + 1, 0);
    for (std::size_t id = 0; id < n_terms; ++id)
        starts[id + 1] = starts[id] + (id < field.terms.size() ? field.terms[id].df : 0);
    field.terms = {};
    std::sort(field.wide.begin(), field.wide.end());
    field.wide.erase(std::unique(field.wide.begin(), field.wide.end()), field.wide.end());
    std::vector<std::uint64_t> wide_starts(field.wide.size() + 1, 0);
    for (std::size_t i = 0; i < field.wide.size(); ++i)
        wide_starts[i + 1] = wide_starts[i] + starts[field.wide[i] + 1] - starts[field.wide[i]];
    std::vector<std::uint64_t> next(starts.begin(), starts.end() - 1);
    std::vector<std::uint32_t> docs = roomy<std::uint32_t>(field.postings.size());
    docs.resize(field.postings.size());
    std::vector<std::uint8_t> tfs = roomy<std::uint8_t>(field.postings.size());
    tfs.resize(field.postings.size());
    std::vector<std::uint32_t> wide_tfs(wide_starts.back());
    std::size_t doc = 0;
    std::uint32_t left = field.distinct.empty() ? 0 : field.distinct[0];
    field.postings.each([&](const Posting* postings, std::size_t count) {
        constexpr std::size_t kAhead = 16;
        for (std::size_t i = 0; i < count; ++i) {
            // The lists of rare terms lie far apart: where this will write is fetched before.
            if (i + 2 * kAhead < count) {
                __builtin_prefetch(&next[postings[i + 2 * kAhead].term], 1);
                const std::uint64_t soon = next[postings[i + kAhead].term];
                __builtin_prefetch(docs.data() + soon, 1);
                __builtin_prefetch(tfs.data() + soon, 1);
            }
            while (left == 0) left = field.distinct[++doc];
            --left;
            const auto [term, tf] = postings[i];
            const std::uint64_t place = next[term]++;
            docs[place] = static_cast<std::uint32_t>(doc);
            tfs[place] = static_cast<std::uint8_t>(std::min(tf, Bm25Field::kWide));
            if (field.wide.empty()) continue;
            const auto found = std::lower_bound(field.wide.begin(), field.wide.end(), term);
            if (found != field.wide.end() && *found == term)
                wide_tfs[wide_starts[static_cast<std::size_t>(found - field.wide.begin())] + place -
                         starts[term]] = tf;
        }
    });
    Bm25Field out;
    out.n_tokens = field.n_tokens;
    out.lengths = Column<std::uint32_t>::of(std::move(field.lengths));
    out.starts = Column<std::uint64_t>::of(std::move(starts));
    out.docs = Column<std::uint32_t>::of(std::move(docs));
    out.tfs = Column<std::uint8_t>::of(std::move(tfs));
    out.wide_terms = Column<std::uint32_t>::of(std::move(field.wide));
    out.wide_starts = Column<std::uint64_t>::of(std::move(wide_starts));
    out.wide_tfs = Column<std::uint32_t>::of(std::move(wide_tfs));
    field.postings.clear();
    if (with_positions_)
        out.positions = field.positions.finish(
            out.lengths.span(), [&](std::size_t term) { return out.postings(term); }, n_terms);
    return out;
}

std::shared_ptr<const Bm25Index> Bm25Builder::finish() {
    std::size_t n_terms = vocabulary_.size();
    for (const Field& field : fields_) n_terms = std::max(n_terms, field.terms.size());
    std::vector<Bm25Field> fields;
    for (Field& field : fields_) fields.push_back(sorted(field, n_terms));
    std::optional<Vocabulary> vocabulary;
    if (with_vocabulary_) vocabulary = Vocabulary(std::move(vocabulary_));
    const std::uint64_t next = epoch_ + 1;
    *this = Bm25Builder(with_vocabulary_, fields_.size(), with_positions_);
    epoch_ = next;
    return Bm25Index::of(std::move(fields), std::move(vocabulary));
}

}  // namespace gnomon
