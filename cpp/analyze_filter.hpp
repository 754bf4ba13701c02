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
    TextFilter(Preset preset, const std::vector<SynonymRule>& rules);

    // One document: cut and kept until drain().
    void add_text(TextView cased, TextView lowered);

    // The distinct tokens that no filter has seen yet, first to last; `whole` of an identifier with parts.
    std::size_t n_unresolved() const { return raw_.size() - mapped_.size(); }
    std::pair<std::string_view, bool> unresolved(std::size_t place) const;
    // What the filters make of the first of them; nothing for a stop word.
    void resolve(const std::optional<std::string>& term);

    // Hands over the documents in order: add_new(term) -> its id, and add(id), both for one more occurrence,
    // then end(). Every token must be resolved. Ids are asked for anew each time: they may have changed.
    template <class AddNew, class Add, class End>
    void drain(const AddNew& add_new, const Add& add, const End& end);

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

    Preset preset_;
    VocabularyBuilder raw_;              // as they were cut; a whole identifier ends with kWholeMark
    std::vector<std::uint32_t> mapped_;  // raw -> term, or kDropped
    VocabularyBuilder terms_;            // filtered
    std::unordered_map<std::uint32_t, std::vector<Rule>> rules_;  // by the first term of the key
    std::vector<std::uint32_t> tokens_;                           // raw, of the documents that wait
    std::vector<std::size_t> ends_;
    std::vector<std::uint32_t> terms_of_document_;
    std::vector<std::uint32_t> expanded_;
    std::string marked_;
};

template <class AddNew, class Add, class End>
void TextFilter::drain(const AddNew& add_new, const Add& add, const End& end) {
    require_resolved();
    std::vector<std::uint32_t> ids(terms_.size(), kUnknown);
    const auto hand_over = [&](std::uint32_t term) {
        if (ids[term] == kUnknown)
            ids[term] = add_new(terms_.term(term));
        else
            add(ids[term]);
    };
    std::size_t at = 0;
    for (const std::size_t last : ends_) {
        terms_of_document_.clear();
        for (; at < last; ++at) {
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
