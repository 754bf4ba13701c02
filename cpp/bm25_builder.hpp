// Documents in, one segment out. 8 bytes a posting while building and 5 more while finish() sorts by term;
// with positions 4 bytes a token, and 4 more in finish().
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "analyze.hpp"
#include "bm25_index.hpp"
#include "chunked.hpp"
#include "vocabulary.hpp"

namespace gnomon {

class Bm25Builder {
  public:
    // Throws InvalidInput unless 1 <= n_fields <= Bm25Index::kFieldsMost.
    explicit Bm25Builder(bool with_vocabulary, std::size_t n_fields = 1, bool with_positions = false);

    std::size_t n_fields() const { return fields_.size(); }
    // The field of the tokens that follow, 0 at the start of each document.
    void begin_field(std::size_t field) { now_ = &fields_[field]; }
    // A document's tokens one by one, field by field, then end_document().
    // Returns the token's id, with which add_term() adds it again.
    std::uint32_t add_token(std::string_view token) {
        const std::uint32_t term = vocabulary_.intern(token);
        add_term(term);
        return term;
    }
    void add_term(std::uint32_t id) {
        Field& field = *now_;
        if (id >= field.terms.size()) [[unlikely]]
            grow_terms(field, id);
        Term& term = field.terms[id];
        ++field.length;
        if (with_positions_) field.positions.add(id);
        if (term.last_doc == field.lengths.size()) {
            if (++term.posting->tf == Bm25Field::kWide + 1) field.wide.push_back(id);
            return;
        }
        term.last_doc = static_cast<std::uint32_t>(field.lengths.size());
        ++term.df;
        ++field.distinct_now;
        term.posting = &field.postings.push({id, 1});
    }
    // Fetches what add_term() will need.
    void prefetch(std::uint32_t term) const {
        if (term < now_->terms.size()) __builtin_prefetch(&now_->terms[term], 1);
    }
    // The tokens of a text, into the present field.
    void add_text(Preset preset, TextView cased, TextView lowered);
    // A token that no query will ask for: it counts towards the length only.
    void skip_token() {
        ++now_->length;
        if (with_positions_) now_->positions.add(PositionsBuilder::kNone);
    }
    void end_document();

    // Another after each finish(): term ids hold until then.
    std::uint64_t epoch() const { return epoch_; }
    std::uint64_t n_docs() const { return fields_[0].lengths.size(); }
    std::uint64_t n_tokens() const;  // of all fields
    std::uint64_t memory() const;    // bytes, about, that finish() will need at most
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
    struct Field {
        std::vector<Term> terms;
        Chunked<Posting> postings;  // by document
        PositionsBuilder positions;
        std::vector<std::uint32_t> lengths;
        std::vector<std::uint32_t> distinct;  // distinct terms by document
        std::vector<std::uint32_t> wide;      // terms with a frequency above 255, perhaps more than once
        std::uint64_t n_tokens = 0;
        std::uint64_t length = 0;
        std::uint32_t distinct_now = 0;
    };
    static void grow_terms(Field& field, std::uint32_t id);
    Bm25Field sorted(Field& field, std::size_t n_terms);

    bool with_vocabulary_;
    bool with_positions_;
    VocabularyBuilder vocabulary_;
    std::vector<Field> fields_;
    Field* now_;
    std::uint64_t epoch_ = 1;
};

}  // namespace gnomon
