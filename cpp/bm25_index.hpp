// One immutable BM25 segment: postings by term (CSR), document lengths, and a vocabulary unless the terms are
// the caller's own ids. Nothing here depends on k1, b or idf, so those can change without a rebuild.
//
// Sections on disk: "counts" u64 {documents, tokens, terms, postings}; "lengths" u32 by document; "starts"
// u64 by term, one more than terms; "docs" u32 ascending within a term; "tfs" u32; "vocabulary.*"
// (vocabulary.hpp). A mapped term is checked once, when it is first used (blocks against their checksums,
// then the invariants that the kernels rely on), so that opening is instant and a hostile file still cannot
// make a kernel write outside.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "analyze.hpp"
#include "bm25.hpp"
#include "chunked.hpp"
#include "storage.hpp"
#include "vocabulary.hpp"

namespace gnomon {

struct Postings {
    std::span<const std::uint32_t> docs;
    std::span<const std::uint32_t> tfs;
};

// What k1 and b add to an index: one norm a document.
struct Bm25Scoring {
    bm25::Params params;
    double k1_plus_1;
    std::vector<double> norms;  // k1 * (1 - b + b * dl / max(avgdl, 1e-12))
};

class Bm25Index {
  public:
    std::uint64_t n_docs() const { return lengths_.size(); }
    std::uint64_t n_tokens() const { return n_tokens_; }
    std::uint64_t n_terms() const { return starts_.size() - 1; }
    std::uint64_t n_postings() const { return docs_.size(); }
    bool has_vocabulary() const { return vocabulary_.has_value(); }
    const Vocabulary& vocabulary() const { return *vocabulary_; }

    // Throws CorruptIndex when the term's part of a mapped file is damaged.
    Postings postings(std::uint64_t term) const;
    std::uint64_t df(std::uint64_t term) const { return postings(term).docs.size(); }
    // Tokens of a document, which must be < n_docs(). Throws CorruptIndex when the file is damaged there.
    std::uint32_t length(std::uint32_t doc) const {
        lengths_.ensure(doc, 1);
        return lengths_.data()[doc];
    }

    // Norms for these parameters; the last ones asked for are kept. Thread safe.
    // Throws InvalidInput unless 0 <= k1 <= 1e100 and 0 <= b <= 1.
    std::shared_ptr<const Bm25Scoring> scoring(bm25::Params params) const;

    void write(ContainerWriter& writer) const;
    static std::shared_ptr<const Bm25Index> open(const std::shared_ptr<const Container>& container);
    // Every invariant of every term, on top of the container's checksums.
    void verify() const;

  private:
    friend class Bm25Builder;
    void check_term(std::uint64_t term, std::uint64_t first, std::uint64_t last) const;
    void check_lengths() const;

    std::uint64_t n_tokens_ = 0;
    Column<std::uint32_t> lengths_;
    Column<std::uint64_t> starts_;
    Column<std::uint32_t> docs_;
    Column<std::uint32_t> tfs_;
    std::optional<Vocabulary> vocabulary_;
    std::unique_ptr<std::atomic<bool>[]> checked_;  // by term; null for an index built in memory

    mutable std::mutex scoring_lock_;
    mutable std::shared_ptr<const Bm25Scoring> scoring_;
};

// Documents in, one at a time; 8 bytes a posting while building and as much again while finish() sorts by
// term.
class Bm25Builder {
  public:
    explicit Bm25Builder(bool with_vocabulary);

    void add_text(Preset preset, TextView cased, TextView lowered);
    // A document's tokens one by one, then end_document().
    // Returns its id, with which add_term() adds it again.
    std::uint32_t add_token(std::string_view token) {
        const std::uint32_t term = vocabulary_.intern(token);
        add_term(term);
        return term;
    }
    void add_term(std::uint32_t term);
    // A token that no query will ask for: it counts towards the length only.
    void skip_token() { ++length_; }
    void end_document();

    std::uint64_t n_docs() const { return lengths_.size(); }
    std::uint64_t n_tokens() const { return n_tokens_; }
    // The builder is empty afterwards.
    std::shared_ptr<const Bm25Index> finish();

  private:
    struct Posting {
        std::uint32_t term;
        std::uint32_t tf;
    };
    struct Term {
        std::uint32_t df = 0;
        std::uint32_t last_doc = UINT32_MAX;
        Posting* posting = nullptr;  // of the last document
    };
    bool with_vocabulary_;
    VocabularyBuilder vocabulary_;
    std::vector<Term> terms_;
    Chunked<Posting> postings_;  // by document
    std::vector<std::uint32_t> lengths_;
    std::vector<std::uint32_t> distinct_;  // distinct terms by document
    std::uint64_t n_tokens_ = 0;
    std::uint64_t length_ = 0;
    std::uint32_t distinct_now_ = 0;
};

}  // namespace gnomon
