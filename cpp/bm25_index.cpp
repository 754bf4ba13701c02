#include "bm25_index.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "error.hpp"

namespace gnomon {

namespace {
constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
constexpr double kMostK1 = 1e100;
}  // namespace

Postings Bm25Index::postings(std::uint64_t term) const {
    starts_.ensure(term, 2);
    const std::uint64_t first = starts_.data()[term];
    const std::uint64_t last = starts_.data()[term + 1];
    if (checked_ != nullptr && !checked_[term].load(std::memory_order_acquire)) {
        check_term(term, first, last);
        checked_[term].store(true, std::memory_order_release);
    }
    return {docs_.span().subspan(first, last - first), tfs_.span().subspan(first, last - first)};
}

void Bm25Index::check_term(std::uint64_t term, std::uint64_t first, std::uint64_t last) const {
    const auto fail = [term](const char* what) {
        throw CorruptIndex("postings of term " + std::to_string(term) + ": " + what +
                           "; build the index again or restore the file");
    };
    if (first > last || last > docs_.size()) fail("they lie outside their section");
    docs_.ensure(first, last - first);
    tfs_.ensure(first, last - first);
    for (std::uint64_t i = first; i < last; ++i) {
        if (docs_.data()[i] >= lengths_.size()) fail("a document does not exist");
        if (i > first && docs_.data()[i] <= docs_.data()[i - 1]) fail("documents are not ascending");
        if (tfs_.data()[i] == 0) fail("a term frequency is zero");
    }
}

std::shared_ptr<const Bm25Scoring> Bm25Index::scoring(bm25::Params params) const {
    // Beyond kMostK1 weight and norm may both overflow to infinity, and their quotient is no number.
    if (!(params.k1 >= 0.0 && params.k1 <= kMostK1))
        throw InvalidInput("k1 must lie between 0 and 1e100, got " + std::to_string(params.k1));
    if (!(params.b >= 0.0 && params.b <= 1.0))
        throw InvalidInput("b must lie between 0 and 1, got " + std::to_string(params.b));
    const std::lock_guard<std::mutex> guard(scoring_lock_);
    if (scoring_ != nullptr && scoring_->params.k1 == params.k1 && scoring_->params.b == params.b)
        return scoring_;
    check_lengths();
    auto made = std::make_shared<Bm25Scoring>();
    made->params = params;
    made->k1_plus_1 = params.k1 + 1.0;
    made->norms.resize(lengths_.size());
    const double avgdl = lengths_.size() == 0 ? 0.0 : bm25::average_length(n_tokens_, n_docs());
    for (std::size_t doc = 0; doc < lengths_.size(); ++doc)
        made->norms[doc] = bm25::length_norm(params, static_cast<double>(lengths_.data()[doc]), avgdl);
    scoring_ = made;
    return made;
}

// A stored count that contradicts the lengths would bend every score through avgdl.
void Bm25Index::check_lengths() const {
    lengths_.ensure_all();
    std::uint64_t tokens = 0;
    for (const std::uint32_t dl : lengths_.span()) tokens += dl;
    if (tokens != n_tokens_)
        throw CorruptIndex("postings: the document lengths add up to " + std::to_string(tokens) +
                           " tokens, the stored count is " + std::to_string(n_tokens_) +
                           "; build the index again or restore the file");
}

// Damaged blocks must not get new, matching checksums in the copy: everything is verified first.
void Bm25Index::write(ContainerWriter& writer) const {
    lengths_.ensure_all();
    starts_.ensure_all();
    docs_.ensure_all();
    tfs_.ensure_all();
    const std::uint64_t counts[] = {n_docs(), n_tokens_, n_terms(), n_postings()};
    writer.section("counts", std::span<const std::uint64_t>(counts));
    writer.section("lengths", lengths_.span());
    writer.section("starts", starts_.span());
    writer.section("docs", docs_.span());
    writer.section("tfs", tfs_.span());
    if (vocabulary_) vocabulary_->write(writer);
}

std::shared_ptr<const Bm25Index> Bm25Index::open(const std::shared_ptr<const Container>& container) {
    auto index = std::make_shared<Bm25Index>();
    const Column<std::uint64_t> counts = container->column<std::uint64_t>("counts");
    counts.ensure_all();
    index->lengths_ = container->column<std::uint32_t>("lengths");
    index->starts_ = container->column<std::uint64_t>("starts");
    index->docs_ = container->column<std::uint32_t>("docs");
    index->tfs_ = container->column<std::uint32_t>("tfs");
    if (counts.size() != 4 || counts.data()[0] != index->lengths_.size() || counts.data()[0] >= kMost ||
        counts.data()[2] >= kMost || counts.data()[2] + 1 != index->starts_.size() ||
        counts.data()[3] != index->docs_.size() || counts.data()[3] != index->tfs_.size())
        throw CorruptIndex(container->path() + ": the counts do not agree with the sections");
    index->n_tokens_ = counts.data()[1];
    if (container->has("vocabulary.slots"))
        index->vocabulary_ = Vocabulary::open(*container, index->n_terms());
    index->checked_ = std::make_unique<std::atomic<bool>[]>(index->n_terms());
    return index;
}

void Bm25Index::verify() const {
    std::uint64_t expected = 0;
    check_lengths();
    std::vector<std::uint64_t> left(lengths_.span().begin(), lengths_.span().end());
    starts_.ensure_all();
    for (std::uint64_t term = 0; term < n_terms(); ++term) {
        if (starts_.data()[term] != expected)
            throw CorruptIndex("postings: the terms leave a gap or overlap");
        const Postings list = postings(term);
        expected += list.docs.size();
        for (std::size_t i = 0; i < list.docs.size(); ++i) left[list.docs[i]] -= list.tfs[i];
    }
    if (expected != n_postings()) throw CorruptIndex("postings: some belong to no term");
    for (std::size_t doc = 0; doc < left.size(); ++doc)
        if (left[doc] != 0)
            throw CorruptIndex("postings: the term frequencies of document " + std::to_string(doc) +
                               " do not add up to its length");
    if (vocabulary_) vocabulary_->verify();
}

Bm25Builder::Bm25Builder(bool with_vocabulary) : with_vocabulary_(with_vocabulary) {}

void Bm25Builder::add_text(Preset preset, TextView cased, TextView lowered) {
    const auto ahead = [this](std::uint32_t term) {
        if (term < terms_.size()) __builtin_prefetch(&terms_[term], 1);
    };
    const auto done = [this](std::uint32_t term) { add_term(term); };
    InternBatch batch(vocabulary_);
    auto each = [&](std::string_view token) { batch.push(token, ahead, done); };
    const auto sink = [](void* context, const Token& token) {
        (*static_cast<decltype(each)*>(context))(token.text);
    };
    tokenize(preset, cased, lowered, sink, &each);
    batch.flush(ahead, done);
    end_document();
}

void Bm25Builder::add_term(std::uint32_t id) {
    if (id >= terms_.size()) {
        if (id == kMost) throw InvalidInput("token ids must be below 4,294,967,295");
        terms_.resize(static_cast<std::size_t>(id) + 1);
    }
    Term& term = terms_[id];
    ++length_;
    if (term.last_doc == lengths_.size()) {
        ++term.posting->tf;
        return;
    }
    term.last_doc = static_cast<std::uint32_t>(lengths_.size());
    ++term.df;
    ++distinct_now_;
    term.posting = &postings_.push({id, 1});
}

void Bm25Builder::end_document() {
    if (length_ >= kMost) throw InvalidInput("a document holds at most 4,294,967,294 tokens; split it");
    if (lengths_.size() >= kMost - 1)
        throw InvalidInput("an index holds at most 4,294,967,294 documents; shard it");
    lengths_.push_back(static_cast<std::uint32_t>(length_));
    distinct_.push_back(distinct_now_);
    n_tokens_ += length_;
    length_ = 0;
    distinct_now_ = 0;
}

// A counting sort by term keeps the order of documents within each term.
std::shared_ptr<const Bm25Index> Bm25Builder::finish() {
    auto index = std::make_shared<Bm25Index>();
    std::vector<std::uint64_t> starts(terms_.size() + 1, 0);
    for (std::size_t id = 0; id < terms_.size(); ++id) starts[id + 1] = starts[id] + terms_[id].df;
    terms_ = {};
    std::vector<std::uint64_t> next(starts.begin(), starts.end() - 1);
    std::vector<std::uint32_t> docs(postings_.size());
    std::vector<std::uint32_t> tfs(postings_.size());
    std::size_t doc = 0;
    std::uint32_t left = distinct_.empty() ? 0 : distinct_[0];
    postings_.each([&](const Posting* postings, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            while (left == 0) left = distinct_[++doc];
            --left;
            const std::uint64_t place = next[postings[i].term]++;
            docs[place] = static_cast<std::uint32_t>(doc);
            tfs[place] = postings[i].tf;
        }
    });
    postings_.clear();
    index->n_tokens_ = n_tokens_;
    index->lengths_ = Column<std::uint32_t>::of(std::move(lengths_));
    index->starts_ = Column<std::uint64_t>::of(std::move(starts));
    index->docs_ = Column<std::uint32_t>::of(std::move(docs));
    index->tfs_ = Column<std::uint32_t>::of(std::move(tfs));
    if (with_vocabulary_) index->vocabulary_ = Vocabulary(std::move(vocabulary_));
    *this = Bm25Builder(with_vocabulary_);
    return index;
}

}  // namespace gnomon
