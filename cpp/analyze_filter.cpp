#include "analyze_filter.hpp"

#include <algorithm>

#include "error.hpp"

namespace gnomon {

TextFilter::TextFilter(Preset preset, const std::vector<SynonymRule>& rules, bool words_stay)
    : preset_(preset), same_(words_stay && rules.empty()) {
    for (const SynonymRule& rule : rules) {
        if (rule.key.empty()) throw InvalidInput("a synonym rule must have a key of at least one token");
        Rule own;
        for (const std::string& token : rule.key) own.key.push_back(terms_.intern(token));
        for (const std::string& token : rule.added) own.added.push_back(terms_.intern(token));
        rules_[own.key.front()].push_back(std::move(own));
    }
}

void TextFilter::add_text(TextView cased, TextView lowered) {
    const auto ahead = [](std::uint32_t) {};
    const auto done = [this](std::uint32_t token) { tokens_.push_back(token); };
    InternBatch batch(raw_);
    auto each = [&](const Token& token) {
        if (token.whole) [[unlikely]]
            return batch.push(marked(token.text), ahead, done);
        batch.push(token.text, ahead, done);
    };
    const auto sink = [](void* context, const Token& token) {
        (*static_cast<decltype(each)*>(context))(token);
    };
    tokenize(preset_, cased, lowered, sink, &each);
    batch.flush(ahead, done);
    ends_.push_back(tokens_.size());
}

std::string_view TextFilter::marked(std::string_view whole) {
    marked_.assign(whole);
    marked_.push_back(kWholeMark);
    const std::size_t size = marked_.size();
    marked_.append(VocabularyBuilder::kInline, '\0');
    return {marked_.data(), size};
}

std::pair<std::string_view, bool> TextFilter::unresolved(std::size_t place) const {
    return unmarked(static_cast<std::uint32_t>(mapped_.size() + place));
}

std::pair<std::string_view, bool> TextFilter::unmarked(std::uint32_t raw) const {
    std::string_view text = raw_.term(raw);
    const bool whole = !text.empty() && text.back() == kWholeMark;
    if (whole) text.remove_suffix(1);
    return {text, whole};
}

void TextFilter::resolve(const std::optional<std::string>& term) {
    if (n_unresolved() == 0) throw InvalidInput("every token is resolved already");
    mapped_.push_back(term ? terms_.intern(*term) : kDropped);
}

void TextFilter::resolve_same() {
    if (n_unresolved() == 0) throw InvalidInput("every token is resolved already");
    mapped_.push_back(same_ ? static_cast<std::uint32_t>(mapped_.size())
                            : terms_.intern(unresolved(0).first));
}

void TextFilter::expand() {
    expanded_.clear();
    for (std::size_t at = 0; at < terms_of_document_.size();) {
        const Rule* const rule = match(at);
        const std::size_t length = rule == nullptr ? 1 : rule->key.size();
        const auto from = terms_of_document_.begin() + static_cast<std::ptrdiff_t>(at);
        expanded_.insert(expanded_.end(), from, from + static_cast<std::ptrdiff_t>(length));
        if (rule != nullptr) expanded_.insert(expanded_.end(), rule->added.begin(), rule->added.end());
        at += length;
    }
}

void TextFilter::require_resolved() const {
    if (n_unresolved() != 0)
        throw InvalidInput(std::to_string(n_unresolved()) +
                           " tokens are not resolved; resolve() each of them");
}

const TextFilter::Rule* TextFilter::match(std::size_t at) const {
    const auto found = rules_.find(terms_of_document_[at]);
    if (found == rules_.end()) return nullptr;
    const std::size_t left = terms_of_document_.size() - at;
    for (const Rule& rule : found->second) {
        if (rule.key.size() <= left &&
            std::equal(rule.key.begin(), rule.key.end(),
                       terms_of_document_.begin() + static_cast<std::ptrdiff_t>(at)))
            return &rule;
    }
    return nullptr;
}

}  // namespace gnomon
