// Stop words, a stemmer and synonyms between the tokenizer and an index, at the cost of one look-up a token:
// tokens are interned as they were cut, and each distinct one goes through the filters once, when it is new.
// What the filters are is the caller's affair (python/gnomon/analysis_filters.py), given as their result.
#pragma once
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze.hpp"
#include "vocabulary.hpp"

namespace gnomon {

// A sequence of filtered tokens, and what is added behind it.
struct SynonymRule {
    std::vector<std::string> key;  // not empty
    std::vector<std::string> added;
};

class TextFilter {
  public:
    // Of rules that start alike the earlier one counts: give longer keys first.
    // `words_stay` promises that the filters drop words and change none.
    TextFilter(Preset preset, const std::vector<SynonymRule>& rules, bool words_stay);

    // One document: cut and kept until drain().
    void add_text(TextView cased, TextView lowered);

    // The distinct tokens that no filter has seen yet, first to last; `whole` of an identifier with parts.
    std::size_t n_unresolved() const { return raw_.size() - mapped_.size(); }
    std::pair<std::string_view, bool> unresolved(std::size_t place) const;
    // What the filters make of the first of them; nothing for a stop word.
    void resolve(const std::optional<std::string>& term);
    // They leave it as it is.
    void resolve_same();

    // Hands over the documents in order: add_new(term) -> its id, and add(id), both for one more occurrence,
    // then end(). Every token must be resolved. Ids are kept until `epoch` is another than the time before.
    // ahead(id) comes before most add(id), so that what that needs is on its way.
    template <class AddNew, class Add, class End, class Ahead>
    void drain(std::uint64_t epoch, const AddNew& add_new, const Add& add, const End& end,
               const Ahead& ahead);

  private:
    struct Rule {
        std::vector<std::uint32_t> key;
        std::vector<std::uint32_t> added;
    };
    static constexpr std::uint32_t kDropped = UINT32_MAX;
    static constexpr std::uint32_t kUnknown = UINT32_MAX;
    static constexpr char kWholeMark = '\xFF';  // in no UTF-8

    // A whole identifier as it is interned, padded; valid until the next one.
    std::string_view marked(std::string_view whole);
    // terms_of_document_ with synonyms, into expanded_.
    void expand();
    void require_resolved() const;
    const Rule* match(std::size_t at) const;
    std::size_t n_terms() const { return same_ ? raw_.size() : terms_.size(); }
    std::string_view term(std::uint32_t id) const { return same_ ? unmarked(id).first : terms_.term(id); }
    std::pair<std::string_view, bool> unmarked(std::uint32_t raw) const;

    Preset preset_;
    bool same_;                          // a raw token is a term, of the same number: terms_ is not used
    VocabularyBuilder raw_;              // as they were cut; a whole identifier ends with kWholeMark
    std::vector<std::uint32_t> mapped_;  // raw -> term, or kDropped
    VocabularyBuilder terms_;            // filtered
    std::vector<std::uint32_t> ids_;     // of the terms, as add_new() gave them, or kUnknown
    std::uint64_t epoch_ = 0;
    std::unordered_map<std::uint32_t, std::vector<Rule>> rules_;  // by the first term of the key
    std::vector<std::uint32_t> tokens_;                           // raw, of the documents that wait
    std::vector<std::size_t> ends_;
    std::vector<std::uint32_t> terms_of_document_;
    std::vector<std::uint32_t> expanded_;
    std::string marked_;
};

template <class AddNew, class Add, class End, class Ahead>
void TextFilter::drain(std::uint64_t epoch, const AddNew& add_new, const Add& add, const End& end,
                       const Ahead& ahead) {
    require_resolved();
    if (epoch != epoch_) ids_.clear();
    epoch_ = epoch;
    ids_.resize(n_terms(), kUnknown);
    std::uint32_t* const ids = ids_.data();
    const auto hand_over = [&](std::uint32_t term) {
        if (ids[term] == kUnknown)
            ids[term] = add_new(this->term(term));
        else
            add(ids[term]);
    };
    // Three look-ups a token, each where the one before it says: each is fetched before it is wanted.
    constexpr std::size_t kStep = 8;
    const std::size_t n = tokens_.size();
    const auto look_ahead = [&](std::size_t now) {
        if (now + 3 * kStep >= n) return;
        __builtin_prefetch(&mapped_[tokens_[now + 3 * kStep]]);
        const std::uint32_t later = mapped_[tokens_[now + 2 * kStep]];
        if (later != kDropped) __builtin_prefetch(&ids[later]);
        const std::uint32_t soon = mapped_[tokens_[now + kStep]];
        if (soon != kDropped && ids[soon] != kUnknown) ahead(ids[soon]);
    };
    std::size_t at = 0;
    for (const std::size_t last : ends_) {
        terms_of_document_.clear();
        for (; at < last; ++at) {
            look_ahead(at);
            const std::uint32_t term = mapped_[tokens_[at]];
            if (term == kDropped) continue;
            if (rules_.empty())
                hand_over(term);
            else
                terms_of_document_.push_back(term);
        }
        if (!rules_.empty()) {
            expand();
            for (const std::uint32_t term : expanded_) hand_over(term);
        }
        end();
    }
    tokens_.clear();
    ends_.clear();
}

}  // namespace gnomon
