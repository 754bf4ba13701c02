#include "corpus_tokens.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>

namespace gnomon {
namespace {

using std::size_t;
using std::string_view;

// In the order of the pattern.
enum Group : std::uint32_t {
    kSymbol,
    kCall,
    kMethod,
    kException,
    kIssue,
    kBare,
    kNumber,
    kDashed,
    kTicket,
    kEnv,
    kFlag,
    kAtvar,
    kSnake,
    kCamel,
    kPascal,
    kUpper,
    kMixed
};

constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return is_lower(c) || is_upper(c); }
constexpr bool is_alnum(char c) { return is_letter(c) || is_digit(c); }
constexpr bool is_word(char c) { return is_alnum(c) || c == '_'; }
constexpr bool is_small(char c) { return is_lower(c) || is_digit(c); }
constexpr bool is_large(char c) { return is_upper(c) || is_digit(c); }
constexpr bool is_constant(char c) { return is_large(c) || c == '_'; }

// A match: where it ends, and the span of its group.
struct Match {
    size_t end;
    WordHit hit;
};
using Found = std::optional<Match>;

class Tokens {
  public:
    explicit Tokens(string_view word) : word_(word) {}

    Found at(size_t i) const {
        const char c = word_[i];
        const char before = i > 0 ? word_[i - 1] : ' ';
        if (is_word(c) && !is_word(before)) {
            if (auto found = boundary(i)) return found;
        }
        if (is_digit(c) || c == 'v' || c == 'V') {
            if (auto found = version(i, before)) return found;
        }
        if (is_word(c) && !is_word(before)) {
            if (auto found = dashed(i)) return found;
        }
        if (i == 0 && (c == '(' || c == '#')) return ticket();
        if (c == '$') return environment(i);
        if (c == '-') return flag(i, before);
        if (c == '@') return variable(i);
        if (is_word(c) && !is_word(before)) return shaped(i);
        return {};
    }

  private:
    char sign(size_t i) const { return i < word_.size() ? word_[i] : '\0'; }
    bool has(size_t i, string_view part) const { return word_.substr(i).starts_with(part); }
    bool ends(size_t i) const { return i >= word_.size() || !is_word(word_[i]); }
    template <class Is>
    size_t run(size_t i, Is is) const {
        while (i < word_.size() && is(word_[i])) ++i;
        return i;
    }
    static Found match(size_t begin, size_t end, Group group, size_t whole) {
        return Match{whole, {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), group}};
    }

    // The first alternatives, which begin with a boundary.
    Found boundary(size_t i) const {
        if (auto found = symbol(i)) return found;
        if (auto found = called(i)) return found;
        if (auto found = exception(i)) return found;
        return issue(i);
    }

    Found symbol(size_t i) const {
        for (const string_view start : {"ER_", "CR_", "EE_", "WARN_", "HA_ERR_"}) {
            if (!has(i, start)) continue;
            const size_t name = i + start.size();
            if (!is_upper(sign(name))) return {};
            const size_t end = run(name + 1, is_constant);
            if (end == name + 1 || word_[end - 1] == '_' || !ends(end)) return {};
            return match(i, end, kSymbol, end);
        }
        return {};
    }

    // Behind an identifier of at most 81 signs at i; i itself where there is none.
    size_t identifier(size_t i) const {
        if (!is_letter(sign(i)) && sign(i) != '_') return i;
        const size_t end = run(i, is_word);
        return end - i > 81 ? i : end;
    }

    Found called(size_t i) const {
        if (word_.find('(', i) == string_view::npos) return {};
        size_t end = identifier(i);
        if (end == i) return {};
        int parts = 0;
        bool dots = true;
        while (parts < 8) {
            const size_t next = end + (sign(end) == '.' ? 1 : has(end, "::") || has(end, "->") ? 2 : 0);
            const size_t after = next == end ? end : identifier(next);
            if (after == next) break;
            dots = dots && sign(end) == '.';
            end = after, ++parts;
        }
        if (word_.substr(i).starts_with("function()")) return {};
        if (has(end, "()")) return match(i, end, kCall, end + 2);
        if (sign(end) == '(' && dots && parts > 0) return match(i, end, kMethod, end);
        return {};
    }

    Found exception(size_t i) const {
        const size_t end = run(i, is_alnum);
        if (!is_upper(word_[i]) || !ends(end)) return {};
        string_view name = word_.substr(i, end - i);
        if (name.ends_with("Exception"))
            name.remove_suffix(9);
        else if (name.ends_with("Error"))
            name.remove_suffix(5);
        else
            return {};
        if (name.size() < 2 || !is_small(name[1])) return {};
        const size_t small = std::min(run(i + 1, is_small), i + name.size());
        if (i + name.size() - small > 80) return {};
        return match(i, end, kException, end);
    }

    Found issue(size_t i) const {
        const auto numbered = [&](size_t begin, size_t least, size_t most) -> Found {
            const size_t end = run(begin, is_digit);
            if (end - begin < least || end - begin > most || !ends(end)) return {};
            return match(i, end, kIssue, end);
        };
        if (has(i, "Bug") || has(i, "bug") || has(i, "BUG"))
            return numbered(i + (sign(i + 3) == '#' ? 4 : 3), 3, word_.size());
        if (has(i, "CVE-")) {
            const size_t year = run(i + 4, is_digit);
            if (year != i + 8 || sign(year) != '-') return {};
            return numbered(year + 1, 4, 7);
        }
        for (const string_view project :
             {"MDEV", "MENT", "MCOL", "CONJ", "CONC", "CONPY", "ODBC", "CONJS", "R2DBC", "WL"}) {
            const size_t after = i + project.size();
            if (has(i, project) && (sign(after) == '-' || sign(after) == '#'))
                return numbered(after + 1, 1, 6);
        }
        return {};
    }

    // "1.2.3" and "1.2": `bare` and `number`.
    Found version(size_t i, char before) const {
        if (is_word(before) || string_view(".:/=#-").find(before) != string_view::npos) return {};
        const size_t begin = is_digit(word_[i]) ? i : i + 1;
        const size_t first = run(begin, is_digit);
        if (first == begin || first - begin > 3 || sign(first) != '.') return {};
        const size_t second = run(first + 1, is_digit), second_width = second - first - 1;
        if (second_width == 0) return {};
        if (first - begin <= 2 && second_width <= 2 && sign(second) == '.') {
            const size_t third = run(second + 1, is_digit), width = third - second - 1;
            if (width > 0 && width <= 3 && ends(third) && !goes_on(third, ".:/-", is_digit))
                return match(begin, third, kBare, third);
        }
        if (second_width > 3 || !ends(second) || sign(second) == '%' || goes_on(second, ".:/-", is_digit))
            return {};
        return match(begin, second, kNumber, second);
    }

    template <class Is>
    bool goes_on(size_t i, string_view signs, Is is) const {
        return i + 1 < word_.size() && signs.find(word_[i]) != string_view::npos && is(word_[i + 1]);
    }

    // Whether each letter at i is that of the name, whose capitals stand for both cases.
    bool spelled(size_t i, string_view name) const {
        if (word_.size() - i < name.size()) return false;
        for (size_t k = 0; k < name.size(); ++k) {
            const char c = word_[i + k];
            if (c != name[k] && !(is_upper(name[k]) && c == static_cast<char>(name[k] + 32))) return false;
        }
        return true;
    }

    Found dashed(size_t i) const {
        size_t dash = 0;
        for (const string_view product : {"MariaDB", "MySQL", "Percona", "Server"})
            if (spelled(i, product)) dash = i + product.size();
        for (const string_view product : {"InnoDB", "XtraDB"})
            if (has(i, product)) dash = i + product.size();
        if (dash == 0 || sign(dash) != '-') return {};
        const size_t begin = dash + 1, first = run(begin, is_digit);
        if (first == begin || first - begin > 2 || sign(first) != '.') return {};
        const size_t second = run(first + 1, is_digit);
        if (second == first + 1 || second - first - 1 > 2) return {};
        size_t end = second;
        if (sign(second) == '.' && is_digit(sign(second + 1))) {
            end = run(second + 1, is_digit);
            if (end - second - 1 > 3) return {};
        }
        if (!ends(end) || goes_on(end, "./-", is_word)) return {};
        return match(begin, end, kDashed, end);
    }

    Found ticket() const {
        const size_t hash = word_[0] == '(' ? 1 : 0;
        if (sign(hash) != '#') return {};
        const size_t end = run(hash + 1, is_digit);
        if (end - hash - 1 < 3 || !ends(end)) return {};
        return match(hash + 1, end, kTicket, end);
    }

    Found environment(size_t i) const {
        const size_t begin = i + (sign(i + 1) == '{' ? 2 : 1);
        if (!is_upper(sign(begin))) return {};
        const size_t end = run(begin + 1, is_constant);
        if (end - begin < 3 || !ends(end)) return {};
        return match(begin, end, kEnv, end);
    }

    Found flag(size_t i, char before) const {
        if (sign(i + 1) != '-' || is_word(before) || before == '-' || !is_lower(sign(i + 2))) return {};
        size_t end = run(i + 3, is_small);
        if (end == i + 3) return {};
        while ((sign(end) == '-' || sign(end) == '_') && is_small(sign(end + 1)))
            end = run(end + 1, is_small);
        return match(i + 2, end, kFlag, end);
    }

    Found variable(size_t i) const {
        if (sign(i + 1) != '@') return {};
        const auto named = [&](size_t begin) -> Found {
            if (!is_lower(sign(begin)) || begin + 1 >= word_.size() || !is_word(word_[begin + 1])) return {};
            const size_t end = run(begin + 1, is_word);
            return match(begin, end, kAtvar, end);
        };
        for (const string_view scope : {"global.", "session.", "local.", "GLOBAL.", "SESSION."}) {
            if (!has(i + 2, scope)) continue;
            if (auto found = named(i + 2 + scope.size())) return found;
        }
        return named(i + 2);
    }

    // What the whole run of letters, digits and "_" at i looks like.
    Found shaped(size_t i) const {
        const size_t end = run(i, is_word);
        const string_view name = word_.substr(i, end - i);
        if (const auto group = shape(name)) return match(i, end, *group, end);
        return {};
    }

    template <class Is>
    static bool all(string_view part, Is is) {
        return std::all_of(part.begin(), part.end(), is);
    }
    template <class Is>
    static size_t leading(string_view part, Is is) {
        return static_cast<size_t>(std::find_if_not(part.begin(), part.end(), is) - part.begin());
    }

    static std::optional<Group> shape(string_view name) {
        const size_t bar = name.find('_');
        if (bar == string_view::npos) return joined(name);
        const bool parted = name.back() != '_' && name.find("__") == string_view::npos && bar > 0;
        const auto of = [&](auto is) { return all(name, [&](char c) { return c == '_' || is(c); }); };
        if (parted && is_lower(name[0]) && of(is_small)) return kSnake;
        if (parted && is_upper(name[0]) && of(is_large)) return kUpper;
        if (bar > 0 && all(name.substr(0, bar), is_letter) && name.back() != '_') return kMixed;
        return {};
    }

    // Of letters and digits only.
    static std::optional<Group> joined(string_view name) {
        const size_t lower = leading(name, is_lower);
        const auto capital_behind = [&](size_t at) {
            at += leading(name.substr(at), is_digit);
            return at < name.size() && is_upper(name[at]);
        };
        if (lower > 0) return capital_behind(lower) ? std::optional(kCamel) : std::nullopt;
        const size_t upper = leading(name, is_upper);
        if (upper == 0 || upper == name.size()) return {};
        if (upper == 1) {
            const size_t more = leading(name.substr(1), is_lower);
            if (more > 0 && capital_behind(1 + more)) return kPascal;
        }
        if (upper >= 2 && is_lower(name[upper])) return kMixed;
        const size_t small = upper + leading(name.substr(upper), is_small);
        if (small < name.size()) return kMixed;  // a capital, as there is nothing else
        return {};
    }

    string_view word_;
};

}  // namespace

void find_tokens(string_view word, std::vector<WordHit>& hits) {
    const Tokens tokens(word);
    for (size_t i = 0; i < word.size();) {
        if (const auto found = tokens.at(i)) {
            hits.push_back(found->hit);
            i = found->end;
        } else {
            ++i;
        }
    }
}

}  // namespace gnomon
