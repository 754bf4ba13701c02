#include "bm25_scorer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "error.hpp"

namespace gnomon {
namespace {

using bm25::Formula;

constexpr std::array<std::pair<const char*, Formula>, 16> kNames = {{
    {"default", Formula::kDefault},
    {"lucene", Formula::kLucene},
    {"robertson", Formula::kRobertson},
    {"atire", Formula::kAtire},
    {"bm25l", Formula::kBm25l},
    {"bm25+", Formula::kBm25Plus},
    {"rank_bm25-okapi", Formula::kRankOkapi},
    {"rank_bm25-l", Formula::kRankL},
    {"rank_bm25-l-head", Formula::kRankLHead},
    {"rank_bm25-plus", Formula::kRankPlus},
    {"rank_bm25-plus-head", Formula::kRankPlusHead},
    {"haystack-okapi", Formula::kHaystackOkapi},
    {"haystack-l", Formula::kHaystackL},
    {"haystack-plus", Formula::kHaystackPlus},
    {"tf-idf", Formula::kTfIdf},
    {"bm25f", Formula::kBm25f},
}};

// Beyond these a weight and a norm may both overflow to infinity, and their quotient is no number.
constexpr double kMost = 1e100;
constexpr double kLeast = 1e-100;

void check(double value, double least, double most, const char* name, const char* range) {
    if (!(value >= least && value <= most))
        throw InvalidInput(std::string(name) + " must lie between " + range + ", got " +
                           std::to_string(value));
}

void check_fields(const Bm25Model& model, std::size_t n_fields) {
    if (model.formula != Formula::kBm25f) {
        require(n_fields == 1, "an index of several fields is scored by the formula 'bm25f' only");
        return;
    }
    require(model.field_weights.size() == n_fields && model.field_b.size() == n_fields,
            "bm25f needs one weight and one b for each field");
    for (const double weight : model.field_weights)
        if (weight != 0.0) check(weight, kLeast, kMost, "a field's weight", "1e-100 and 1e100, or be 0");
    for (const double b : model.field_b) check(b, 0.0, 1.0, "a field's b", "0 and 1");
}

std::uint64_t next_number() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Formula formula_named(std::string_view name) {
    for (const auto& [known, formula] : kNames)
        if (name == known) return formula;
    std::string names;
    for (const std::string& known : formula_names()) names += (names.empty() ? "" : ", ") + known;
    throw InvalidInput("formula names '" + std::string(name) + "', which is unknown; choose one of " + names);
}

std::vector<std::string> formula_names() {
    std::vector<std::string> names;
    for (const auto& entry : kNames) names.emplace_back(entry.first);
    return names;
}

Bm25Scorer::Bm25Scorer(std::shared_ptr<const Bm25Snapshot> snapshot, Bm25Model model, std::size_t cap)
    : snapshot_(std::move(snapshot)),
      model_(std::move(model)),
      screen_cap_(cap),
      number_(next_number()),
      ready_(snapshot_->segments().size() * snapshot_->n_fields()),
      constants_(ready_.size()) {
    check(model_.k1, 0.0, kMost, "k1", "0 and 1e100");
    check(model_.b, 0.0, 1.0, "b", "0 and 1");
    check(model_.delta, 0.0, kMost, "delta", "0 and 1e100");
    check(model_.epsilon, -kMost, kMost, "epsilon", "-1e100 and 1e100");
    check(model_.floor.value_or(0.0), -kMost, kMost, "idf_floor", "-1e100 and 1e100");
    check_fields(model_, snapshot_->n_fields());
}

std::shared_ptr<const Bm25Term> Bm25Scorer::find(std::string_view token) const {
    {
        const std::shared_lock<std::shared_mutex> guard(terms_lock_);
        if (const auto known = tokens_.find(token); known != tokens_.end()) return known->second;
    }
    auto term = make(snapshot_->find(token));
    if (term == nullptr) return nullptr;  // not remembered: there is no end of unknown words
    return remember(tokens_, std::string(token), std::move(term));
}

std::shared_ptr<const Bm25Term> Bm25Scorer::find(std::uint32_t id) const {
    {
        const std::shared_lock<std::shared_mutex> guard(terms_lock_);
        if (const auto known = ids_.find(id); known != ids_.end()) return known->second;
    }
    auto term = make(snapshot_->find(id));
    if (term == nullptr) return nullptr;
    return remember(ids_, id, std::move(term));
}

template <class Map, class Key>
std::shared_ptr<const Bm25Term> Bm25Scorer::remember(Map& map, Key key,
                                                     std::shared_ptr<const Bm25Term> term) const {
    const std::unique_lock<std::shared_mutex> guard(terms_lock_);
    if (const auto known = map.find(key); known != map.end()) return known->second;
    if (term->decoded_bytes != 0 && decoded_bytes_ + term->decoded_bytes > screen_cap_ / 4) forget_terms();
    decoded_bytes_ += term->decoded_bytes;
    return map.emplace(std::move(key), std::move(term)).first->second;
}

// Under terms_lock_. Searches under way hold what they use.
void Bm25Scorer::forget_terms() const {
    tokens_.clear();
    ids_.clear();
    decoded_bytes_ = 0;
    const std::unique_lock<std::shared_mutex> guard(screens_lock_);
    if (screens_.empty()) return;
    screens_.clear();
    used_bytes_.store(0, std::memory_order_relaxed);
    dropped_.fetch_add(1, std::memory_order_relaxed);
}

std::shared_ptr<const Bm25Term> Bm25Scorer::make(TermRef ref) const {
    auto term = std::make_shared<Bm25Term>();
    const std::size_t n_fields = this->n_fields();
    term->postings.resize(ref.by_segment.size() * n_fields);
    for (std::size_t segment = 0; segment < ref.by_segment.size(); ++segment) {
        if (!ref.by_segment[segment]) continue;
        for (std::size_t field = 0; field < n_fields; ++field) {
            Postings& list = term->postings[segment * n_fields + field];
            list = snapshot_->segments()[segment].segment->postings(*ref.by_segment[segment], field);
            term->n_postings += list.docs.size();
            term->decoded_bytes += list.decoded_bytes();
        }
    }
    if (term->n_postings == 0) return nullptr;
    term->df = snapshot_->df(ref);
    if (term->df == 0) return nullptr;
    term->ref = std::move(ref);
    term->idf = idf_of(term->df);
    return term;
}

double Bm25Scorer::idf_of(std::uint64_t df) const {
    const double value = bm25::idf(model_.formula, snapshot_->n_docs(), df);
    if (value >= 0.0 || !bm25::has_floor(model_.formula)) return value;
    if (model_.floor) return *model_.floor;
    std::call_once(floor_once_, [this] { floor_ = mean_floor(); });
    return floor_;
}

// Each term is counted in the first segment that holds it.
double Bm25Scorer::mean_floor() const {
    std::map<std::uint64_t, std::uint64_t> terms_of;
    const auto& segments = snapshot_->segments();
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const Bm25Index& segment = *segments[i].segment;
        for (std::uint64_t id = 0; id < segment.n_terms(); ++id) {
            const auto number = static_cast<std::uint32_t>(id);
            const TermRef ref = snapshot_->has_vocabulary()
                                    ? snapshot_->find(segment.vocabulary().term(number))
                                    : snapshot_->find(number);
            const auto first = std::find_if(ref.by_segment.begin(), ref.by_segment.end(),
                                            [](const auto& held) { return held.has_value(); });
            if (first != ref.by_segment.begin() + static_cast<std::ptrdiff_t>(i)) continue;
            if (const std::uint64_t df = snapshot_->df(ref); df != 0) ++terms_of[df];
        }
    }
    double sum = 0.0;
    double n_terms = 0.0;
    for (const auto& [df, count] : terms_of) {
        sum = sum + static_cast<double>(count) * bm25::idf(model_.formula, snapshot_->n_docs(), df);
        n_terms += static_cast<double>(count);
    }
    return bm25::floor_idf(model_.formula, model_.epsilon, sum, n_terms);
}

const double* Bm25Scorer::constants(std::size_t segment, std::size_t field) const {
    const std::size_t place = segment * n_fields() + field;
    if (const double* made = ready_[place].load(std::memory_order_acquire)) return made;
    const std::lock_guard<std::mutex> guard(constants_lock_);
    if (constants_[place] == nullptr) {
        const Bm25Index& index = *snapshot_->segments()[segment].segment;
        const std::span<const std::uint32_t> lengths = index.lengths(field);
        const bool fields = model_.formula == Formula::kBm25f;
        const double factor = fields || bm25::takes_rel(model_.formula) ? 1.0 : model_.k1;
        const double b = fields ? model_.field_b[field] : model_.b;
        const double avgdl = snapshot_->n_docs() == 0
                                 ? 0.0
                                 : bm25::average_length(snapshot_->n_tokens(field), snapshot_->n_docs());
        auto made = std::make_unique_for_overwrite<double[]>(lengths.size() + 1);  // never a null array
        for (std::size_t doc = 0; doc < lengths.size(); ++doc)
            made[doc] = bm25::length_norm({factor, b}, static_cast<double>(lengths[doc]), avgdl);
        constants_[place] = std::move(made);
        ready_[place].store(constants_[place].get(), std::memory_order_release);
    }
    return constants_[place].get();
}

std::shared_ptr<const TermScreens> Bm25Scorer::screens(const Bm25Term& term) const {
    {
        const std::shared_lock<std::shared_mutex> guard(screens_lock_);
        if (const auto known = screens_.find(&term); known != screens_.end()) {
            touch(*known->second);
            return known->second;
        }
    }
    if (term.n_postings * 4 > screen_cap_) return nullptr;
    auto made = std::make_shared<TermScreens>();
    made->term = term.shared_from_this();
    made->bytes = term.decoded_bytes;
    made->lists.resize(snapshot_->segments().size());
    for (std::size_t segment = 0; segment < made->lists.size(); ++segment) {
        if (!term.ref.by_segment[segment]) continue;
        made->lists[segment] = make_screen(term, segment);
        made->bytes += made->lists[segment]->bytes();
    }
    if (made->bytes > screen_cap_) return nullptr;
    made->best = best_impacts(made->lists);
    made->used.store(made_.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    const std::unique_lock<std::shared_mutex> guard(screens_lock_);
    if (const auto known = screens_.find(&term); known != screens_.end()) return known->second;
    make_room(made->bytes);
    used_bytes_.fetch_add(made->bytes, std::memory_order_relaxed);
    return screens_.emplace(&term, std::move(made)).first->second;
}

// Under screens_lock_. Down to half of the cap, so that it is seldom.
void Bm25Scorer::make_room(std::size_t bytes) const {
    if (used_bytes_.load(std::memory_order_relaxed) + bytes <= screen_cap_) return;
    std::vector<std::pair<std::uint64_t, const Bm25Term*>> by_use;
    for (const auto& [term, lists] : screens_)
        by_use.emplace_back(lists->used.load(std::memory_order_relaxed), term);
    std::sort(by_use.begin(), by_use.end());
    for (const auto& [used, term] : by_use) {
        const std::size_t held = used_bytes_.load(std::memory_order_relaxed);
        if (held + bytes <= screen_cap_ && held <= screen_cap_ / 2) break;
        const auto place = screens_.find(term);
        used_bytes_.fetch_sub(place->second->bytes, std::memory_order_relaxed);
        screens_.erase(place);
        dropped_.fetch_add(1, std::memory_order_relaxed);
    }
}

// The documents of all fields that count, ascending, and their tf~: fields in order, as the formula adds
// them.
std::vector<double> Bm25Scorer::merge_fields(const Postings* lists, std::size_t segment,
                                             std::vector<std::uint32_t>& docs) const {
    std::vector<std::uint32_t> joined;
    for (std::size_t field = 0; field < n_fields(); ++field) {
        if (model_.field_weights[field] == 0.0) continue;
        joined.clear();
        std::set_union(docs.begin(), docs.end(), lists[field].docs.begin(), lists[field].docs.end(),
                       std::back_inserter(joined));
        docs.swap(joined);
    }
    std::vector<double> tildes(docs.size(), 0.0);
    for (std::size_t field = 0; field < n_fields(); ++field) {
        if (model_.field_weights[field] == 0.0) continue;
        const double* const rels = constants(segment, field);
        std::size_t at = 0;
        for (std::size_t i = 0; i < lists[field].docs.size(); ++i) {
            const std::uint32_t doc = lists[field].docs[i];
            while (docs[at] != doc) ++at;
            tildes[at] += bm25::field_tf(model_.field_weights[field], static_cast<double>(lists[field].tf(i)),
                                         rels[doc]);
        }
    }
    return tildes;
}

std::shared_ptr<const TermScreen> Bm25Scorer::make_screen(const Bm25Term& term, std::size_t segment) const {
    auto screen = std::make_shared<TermScreen>();
    const SegmentView& view = snapshot_->segments()[segment];
    const auto live = [&view](std::uint32_t doc, double impact) {
        return view.live(doc) ? static_cast<float>(impact) : 0.0F;
    };
    if (model_.formula != Formula::kBm25f) {
        const Postings& list = term.postings[segment];
        const double* const norms = constants(segment);
        screen->docs = list.docs;
        screen->impacts.resize(list.docs.size());
        for (std::size_t i = 0; i < list.docs.size(); ++i) {
            const std::uint32_t doc = list.docs[i];
            screen->impacts[i] = live(doc, bm25::impact(model_.formula, static_cast<double>(list.tf(i)),
                                                        norms[doc], model_.k1, model_.delta));
        }
    } else {
        std::vector<double> tildes =
            merge_fields(&term.postings[segment * n_fields()], segment, screen->merged);
        for (std::size_t i = 0; i < tildes.size(); ++i)
            screen->impacts.push_back(live(screen->merged[i], bm25::field_part(1.0, tildes[i], model_.k1)));
        screen->docs = screen->merged;
    }
    finish_screen(*screen, view.segment->n_docs());
    if (model_.formula != Formula::kBm25f && !screen->levels.empty()) {
        const Postings& list = term.postings[segment];
        if (list.wide.empty()) {
            screen->tfs.assign(view.segment->n_docs(), 0);
            for (std::size_t i = 0; i < list.docs.size(); ++i) screen->tfs[list.docs[i]] = list.tfs[i];
        }
    }
    return screen;
}

}  // namespace gnomon
