#include "impacts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "error.hpp"

namespace gnomon {
namespace {

constexpr auto kBetter = [](const auto& a, const auto& b) {
    return a.score != b.score ? a.score > b.score : a.document < b.document;
};

template <class Best>
void keep(std::vector<Best>& found, std::size_t k) {
    const auto last = found.begin() + static_cast<std::ptrdiff_t>(std::min(k, found.size()));
    if (last != found.end()) std::nth_element(found.begin(), last, found.end(), kBetter);
    found.erase(last, found.end());
}

template <class Best>
auto least(const std::vector<Best>& found) {
    return std::min_element(found.begin(), found.end(),
                            [](const Best& a, const Best& b) { return a.score < b.score; })
        ->score;
}

}  // namespace

template <class T, class I>
Impacts<T, I>::Impacts(std::span<const T> data, std::span<const I> documents,
                       std::span<const std::int64_t> starts, std::uint64_t n_docs)
    : data_(data), documents_(documents), starts_(starts), n_docs_(n_docs) {
    require(n_docs <= std::numeric_limits<std::uint32_t>::max(), "num_docs must be below 2^32");
    require(data.size() == documents.size(), "data and indices must have one length");
    require(!starts.empty() && starts.front() == 0 && std::is_sorted(starts.begin(), starts.end()) &&
                starts.back() == static_cast<std::int64_t>(data.size()),
            "indptr must rise from 0 to the number of scores");
    greatest_.resize(n_columns());
    T least = 0;
    bool sorted = true;
    bool inside = true;
    double largest = 0.0;
    for (std::size_t column = 0; column < n_columns(); ++column) {
        const auto first = static_cast<std::size_t>(starts[column]);
        const auto last = static_cast<std::size_t>(starts[column + 1]);
        T most = 0;
        bool numbers = true;
        for (std::size_t i = first; i < last; ++i) {
            most = data[i] > most ? data[i] : most;
            least = data[i] < least ? data[i] : least;
            numbers &= data[i] == data[i];
            inside &= static_cast<std::uint64_t>(documents[i]) < n_docs;
            sorted &= i == first || documents[i] > documents[i - 1];
        }
        greatest_[column] = most;
        largest =
            numbers ? std::max(largest, static_cast<double>(most)) : std::numeric_limits<double>::infinity();
    }
    require(inside, "indices must name documents from 0 to num_docs - 1");
    largest_ = std::max(largest, -static_cast<double>(least));
    plain_ = least < 0 || !sorted;
}

template <class T, class I>
bool Impacts<T, I>::bounded(std::size_t terms) const {
    const double most = static_cast<double>(std::numeric_limits<T>::max()) / 4.0;
    return largest_ <= most / static_cast<double>(terms + 1);
}

template <class T, class I>
void Impacts<T, I>::add(std::span<const std::int64_t> columns, T* sums) const {
    for (const std::int64_t column : columns) {
        const auto last = static_cast<std::size_t>(starts_[static_cast<std::size_t>(column) + 1]);
        for (auto i = static_cast<std::size_t>(starts_[static_cast<std::size_t>(column)]); i < last; ++i)
            sums[documents_[i]] += data_[i];
    }
}

// 0 for a document that the column lacks. The search begins where the document lay if all had equal gaps.
template <class T, class I>
T Impacts<T, I>::value(std::int64_t column, std::uint32_t document) const {
    const auto first = static_cast<std::size_t>(starts_[static_cast<std::size_t>(column)]);
    const auto last = static_cast<std::size_t>(starts_[static_cast<std::size_t>(column) + 1]);
    if (first == last) return 0;
    const auto wanted = static_cast<I>(document);
    std::size_t low = first;
    std::size_t high = last;  // the first document not below `wanted` lies in [low, high]
    const std::size_t guess =
        first + static_cast<std::size_t>(static_cast<std::uint64_t>(document) * (last - first) / n_docs_);
    std::size_t step = 8;
    if (documents_[guess] < wanted) {
        low = guess + 1;
        for (; low + step < last && documents_[low + step] < wanted; step *= 4) low += step + 1;
        high = std::min(last, low + step);
    } else {
        high = guess;
        for (; high >= first + step && !(documents_[high - step] < wanted); step *= 4) high -= step;
        low = high >= first + step ? high - step : first;
    }
    const auto at = std::lower_bound(documents_.begin() + static_cast<std::ptrdiff_t>(low),
                                     documents_.begin() + static_cast<std::ptrdiff_t>(high), wanted);
    const auto place = static_cast<std::size_t>(at - documents_.begin());
    return place < last && documents_[place] == wanted ? data_[place] : T{0};
}

template <class T, class I>
T Impacts<T, I>::score(std::span<const std::int64_t> columns, T shift, std::uint32_t document) const {
    T sum = 0;
    for (const std::int64_t column : columns) sum += value(column, document);
    return sum + shift;
}

template <class T, class I>
struct Impacts<T, I>::Term {
    std::int64_t column;
    T count;
    double most;  // count * the column's greatest
    std::size_t length;
};

// One query over sorted columns without negative values; see the head of impacts.hpp.
template <class T, class I>
class Impacts<T, I>::Pruned {
  public:
    Pruned(const Impacts& impacts, std::span<const std::int64_t> columns, T shift, std::size_t k,
           Scratch& scratch)
        : impacts_(impacts), columns_(columns), shift_(shift), k_(k), scratch_(scratch) {
        std::vector<std::int64_t> sorted(columns.begin(), columns.end());
        std::sort(sorted.begin(), sorted.end());
        for (const std::int64_t column : sorted) {
            if (!terms_.empty() && terms_.back().column == column) {
                terms_.back().count += 1;
                continue;
            }
            const auto place = static_cast<std::size_t>(column);
            terms_.push_back({column, 1, 0.0,
                              static_cast<std::size_t>(impacts.starts_[place + 1] - impacts.starts_[place])});
        }
        for (Term& term : terms_)
            term.most = static_cast<double>(term.count) *
                        static_cast<double>(impacts.greatest_[static_cast<std::size_t>(term.column)]);
        std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) {
            return a.most != b.most ? a.most > b.most : a.column < b.column;
        });
        rest_.assign(terms_.size() + 1, 0.0);
        left_.assign(terms_.size() + 1, 0);
        for (std::size_t i = terms_.size(); i-- > 0;) {
            rest_[i] = rest_[i + 1] + terms_[i].most;
            left_[i] = left_[i + 1] + terms_[i].length;
        }
        const double u = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2.0;
        slack_ = 1.0 + 4.0 * static_cast<double>(columns.size()) * u + std::max(8.0 * u, 0x1p-40);
    }

    // False where documents without any of the terms are among the best, or too much is left: the sums are
    // then 0 again, as they are after an answer.
    bool run(std::vector<Best>& best) {
        std::size_t read = 0;
        bool done = false;
        while (read < terms_.size() && !done) {
            take(terms_[read++]);
            const std::size_t pass = crowd_ ? impacts_.n_docs_ / 4 : met_;  // what a look at the sums costs
            if (met_ >= k_ && (left_[read] > pass || read == terms_.size()))
                done = raise(read) && bound(0, rest_[read]) < worst_ && worth(read);
        }
        const bool answered = done && settle(read, best);
        if (crowd_)
            std::fill(scratch_.sums.begin(), scratch_.sums.end(), T{0});
        else
            for (std::size_t i = 0; i < met_; ++i) scratch_.sums[scratch_.met[i]] = 0;
        return answered;
    }

  private:
    // The most that a score can be whose read columns sum up to `partial`, where `rest` may be added.
    T bound(T partial, double rest) const {
        const double most = (static_cast<double>(partial) + rest) * slack_;
        return static_cast<T>(most + static_cast<double>(std::numeric_limits<T>::denorm_min())) + shift_;
    }

    // A partial sum whose bound is below `worst`, and with it that of all smaller ones; needs one of 0 to be.
    T hopeless(double rest) const {
        T low = 0;
        T high = worst_ - shift_;
        for (int step = 0; step < 40; ++step) {
            const T middle = low + (high - low) / 2;
            (bound(middle, rest) < worst_ ? low : high) = middle;
        }
        return low;
    }

    // The documents met are listed while they are few. Without a branch: whether one is new is a guess that
    // fails as often as not.
    void take(const Term& term) {
        const auto first = static_cast<std::size_t>(impacts_.starts_[static_cast<std::size_t>(term.column)]);
        const T* data = impacts_.data_.data() + first;
        const I* documents = impacts_.documents_.data() + first;
        T* sums = scratch_.sums.data();
        crowd_ = crowd_ || met_ + term.length > impacts_.n_docs_ / 8;
        std::size_t n = met_;
        if (crowd_) {
            for (std::size_t i = 0; i < term.length; ++i) {
                T& sum = sums[documents[i]];
                n += static_cast<std::size_t>(sum == 0);
                sum += term.count * data[i];
            }
            met_ = n;
            return;
        }
        std::uint32_t* met = scratch_.met.data();
        for (std::size_t i = 0; i < term.length; ++i) {
            const auto document = static_cast<std::uint32_t>(documents[i]);
            const T before = sums[document];
            const T more = term.count * data[i];
            sums[document] = before + more;
            met[n] = document;
            n += static_cast<std::size_t>(before == 0) & static_cast<std::size_t>(more != 0);
        }
        met_ = n;
    }

    // fn(document, sum) of each whose sum is greater than `floor()` when it is looked at, while fn is true.
    template <class Floor, class Fn>
    bool each_above(const Floor& floor, const Fn& fn) const {
        const T* sums = scratch_.sums.data();
        if (!crowd_) {
            for (std::size_t i = 0; i < met_; ++i) {
                const std::uint32_t document = scratch_.met[i];
                if (sums[document] > floor() && !fn(document, sums[document])) return false;
            }
            return true;
        }
        const std::size_t n = scratch_.sums.size();
        for (std::size_t start = 0; start < n; start += kGlance) {
            const T bar = floor();
            const std::size_t end = std::min(n, start + kGlance);
            unsigned any = 0;
            for (std::size_t i = start; i < end; ++i) any |= static_cast<unsigned>(sums[i] > bar);
            if (any == 0) continue;
            for (std::size_t i = start; i < end; ++i)
                if (sums[i] > floor() && !fn(static_cast<std::uint32_t>(i), sums[i])) return false;
        }
        return true;
    }

    // Makes `worst` the least exact score of the k best partial sums; false where it does not stand out from
    // the score of a document without terms.
    bool raise(std::size_t read) {
        if (k_ == 0 || read == 0) return false;
        heads_.clear();
        T bar = 0;  // what is worth a place; equal ones of the first k do
        each_above([&] { return bar; },
                   [&](std::uint32_t document, T sum) {
                       heads_.push_back({sum, document});
                       if (heads_.size() < 4 * k_ + 64) return true;
                       keep(heads_, k_);
                       bar = least(heads_);
                       return true;
                   });
        if (heads_.size() < k_) return false;
        keep(heads_, k_);
        for (Best& head : heads_) head.score = impacts_.score(columns_, shift_, head.document);
        worst_ = std::max(worst_, least(heads_));
        return worst_ > shift_;
    }

    // Whether looking up what the documents in play have in the other columns is less work than reading
    // those.
    bool worth(std::size_t read) const {
        if (read == terms_.size()) return true;
        const T floor = hopeless(rest_[read]);
        std::size_t n = 0;
        if (crowd_)
            for (const T sum : scratch_.sums) n += static_cast<std::size_t>(sum > floor);
        else
            for (std::size_t i = 0; i < met_; ++i)
                n += static_cast<std::size_t>(scratch_.sums[scratch_.met[i]] > floor);
        return n * kLookUp * (terms_.size() - read) <= left_[read];
    }

    bool settle(std::size_t read, std::vector<Best>& best) {
        best.clear();
        std::size_t budget = 8 * k_ * columns_.size() + left_[0] / kLookUp;
        // One addition or two are the same in any order.
        const bool exact = read == terms_.size() && columns_.size() <= 2;
        const T floor = hopeless(rest_[read]);
        const bool whole =
            each_above([&] { return floor; },
                       [&](std::uint32_t document, T partial) {
                           if (exact) {
                               const T score = partial + shift_;
                               if (score >= worst_) best.push_back({score, document});
                               return true;
                           }
                           if (budget < terms_.size() + columns_.size()) return false;
                           for (std::size_t next = read; next < terms_.size(); ++next) {
                               partial += terms_[next].count * impacts_.value(terms_[next].column, document);
                               --budget;
                               if (bound(partial, rest_[next + 1]) < worst_) return true;
                           }
                           best.push_back({impacts_.score(columns_, shift_, document), document});
                           budget -= columns_.size();
                           return true;
                       });
        keep(best, k_);
        return whole && best.size() == k_;
    }

    static constexpr std::size_t kGlance = 64;  // sums
    static constexpr std::size_t kLookUp = 16;  // values are summed while one is looked up

    const Impacts& impacts_;
    std::span<const std::int64_t> columns_;
    T shift_;
    std::size_t k_;
    Scratch& scratch_;
    std::vector<Term> terms_;
    std::vector<double> rest_;       // of the terms from i on, what they may add
    std::vector<std::size_t> left_;  // and how many values they have
    std::vector<Best> heads_;
    double slack_ = 1.0;
    std::size_t met_ = 0;  // documents, or more where sums of 0 are met again
    bool crowd_ = false;   // too many to list
    T worst_ = -std::numeric_limits<T>::infinity();
};

template <class T, class I>
auto Impacts<T, I>::best_of_all(std::span<const std::int64_t> columns, T shift, std::size_t k, T* sums) const
    -> std::vector<Best> {
    add(columns, sums);
    std::vector<Best> best;
    const std::size_t limit = 2 * k + 64;
    bool full = false;
    T worst = 0;
    for (std::size_t i = 0; i < n_docs_; ++i) {
        const T score = sums[i] + shift;
        sums[i] = 0;
        if (full && !(score > worst)) continue;  // an equal one of a higher number loses
        best.push_back({score, static_cast<std::uint32_t>(i)});
        if (best.size() < limit) continue;
        keep(best, k);
        worst = least(best);
        full = true;
    }
    keep(best, k);
    return best;
}

template <class T, class I>
void Impacts<T, I>::top_k(std::span<const std::int64_t> columns, T shift, std::size_t k, Scratch& scratch,
                          T* scores, std::int64_t* found) const {
    if (k == 0) return;
    scratch.sums.resize(n_docs_, 0);
    scratch.met.resize(n_docs_ + 1);
    std::vector<Best> best;
    const bool few = !plain_ && columns.size() <= 4096 && !columns.empty();
    if (!few || !Pruned(*this, columns, shift, k, scratch).run(best))
        best = best_of_all(columns, shift, k, scratch.sums.data());
    std::sort(best.begin(), best.end(), kBetter);
    for (std::size_t i = 0; i < k; ++i) {
        scores[i] = best[i].score;
        found[i] = best[i].document;
    }
}

template class Impacts<float, std::int32_t>;
template class Impacts<float, std::int64_t>;
template class Impacts<double, std::int32_t>;
template class Impacts<double, std::int64_t>;

}  // namespace gnomon
