// gnomon._core: texts through stop words, stemmer and synonyms into a builder.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <unordered_set>

#include "analyze_filter.hpp"
#include "bindings.hpp"
#include "bm25_builder.hpp"
#include "error.hpp"
#include "porter.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using Rules = std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>>;

class FilteredTexts {
  public:
    // `stem`: None, "porter", or a function from a list of words to their stems.
    FilteredTexts(Bm25Builder& builder, std::string_view preset, const std::vector<std::string>& stop_words,
                  py::object stem, const Rules& rules)
        : builder_(builder),
          filter_(preset_named(preset), own(rules), stem.is_none()),
          stops_(stop_words.begin(), stop_words.end()),
          porter_(py::isinstance<py::str>(stem)),
          stem_(std::move(stem)) {
        for (const std::string& stop : stops_) longest_stop_ = std::max(longest_stop_, stop.size());
        if (porter_ && stem_.cast<std::string>() != "porter")
            throw InvalidInput("stem must be None, \"porter\" or a function");
    }

    void add(const py::list& cased, const py::list& lowered) {
        if (cased.size() != lowered.size()) throw InvalidInput("cased and lowered must have the same length");
        std::vector<std::pair<TextView, TextView>> views;
        for (std::size_t i = 0; i < cased.size(); ++i)
            views.emplace_back(text_view(cased[i]), text_view(lowered[i]));
        std::vector<std::optional<std::string>> terms;
        std::vector<std::size_t> to_stem;
        {
            const py::gil_scoped_release release;
            for (const auto& [text, lower] : views) filter_.add_text(text, lower);
            if (!porter_ && stem_.is_none())
                resolve_unstemmed();
            else
                resolve_alone(terms, to_stem);
        }
        if (!to_stem.empty()) stem_by_function(terms, to_stem);
        const py::gil_scoped_release release;
        for (const auto& term : terms) filter_.resolve(term);
        std::size_t part = 0;  // documents come flat, all fields of one after the other
        const auto end = [&] {
            if (++part % builder_.n_fields() == 0)
                builder_.end_document();
            else
                builder_.begin_field(part % builder_.n_fields());
        };
        filter_.drain(
            builder_.epoch(), [this](std::string_view term) { return builder_.add_token(term); },
            [this](std::uint32_t term) { builder_.add_term(term); }, end,
            [this](std::uint32_t term) { builder_.prefetch(term); });
    }

  private:
    static std::vector<SynonymRule> own(const Rules& rules) {
        std::vector<SynonymRule> found;
        for (const auto& [key, added] : rules) found.push_back({key, added});
        return found;
    }

    void resolve_unstemmed() {
        while (filter_.n_unresolved() != 0) {
            const std::string_view text = filter_.unresolved(0).first;
            if (text.size() <= longest_stop_ && stops_.contains(std::string(text)))
                filter_.resolve(std::nullopt);
            else
                filter_.resolve_same();
        }
    }

    // What becomes of the new tokens as far as no Python is needed for it. A stem of nothing leaves the
    // token.
    void resolve_alone(std::vector<std::optional<std::string>>& terms,
                       std::vector<std::size_t>& to_stem) const {
        for (std::size_t i = 0; i < filter_.n_unresolved(); ++i) {
            const auto [text, whole] = filter_.unresolved(i);
            std::string token(text);
            if (stops_.contains(token)) {
                terms.emplace_back();
                continue;
            }
            if (porter_ && !whole) {
                if (std::string stem = porter_stem(token); !stem.empty()) token = std::move(stem);
            } else if (!stem_.is_none() && !whole) {
                to_stem.push_back(i);
            }
            terms.emplace_back(std::move(token));
        }
    }

    void stem_by_function(std::vector<std::optional<std::string>>& terms,
                          const std::vector<std::size_t>& to_stem) const {
        py::list words;
        for (const std::size_t i : to_stem) words.append(to_str(*terms[i]));
        const py::object stems = stem_(words);
        if (!py::isinstance<py::list>(stems) || py::len(stems) != to_stem.size())
            throw InvalidInput("stem must return a list of one stem a word, " +
                               std::to_string(to_stem.size()));
        std::size_t at = 0;
        for (const py::handle stem : py::reinterpret_borrow<py::list>(stems)) {
            if (!PyUnicode_Check(stem.ptr())) throw py::type_error("stem must return str");
            py::object owner;
            const std::string_view text = utf8_view(stem, owner);
            if (!text.empty()) terms[to_stem[at]] = std::string(text);
            ++at;
        }
    }

    Bm25Builder& builder_;
    TextFilter filter_;
    std::unordered_set<std::string> stops_;
    bool porter_;
    py::object stem_;
    std::size_t longest_stop_ = 0;
};

}  // namespace

void register_filter(py::module_& module) {
    py::class_<FilteredTexts>(module, "FilteredTexts", py::is_final(),
                              "Takes texts into a builder, each distinct token filtered once.")
        .def(py::init<Bm25Builder&, std::string_view, std::vector<std::string>, py::object, Rules>(),
             py::arg("builder"), py::arg("preset"), py::arg("stop_words"), py::arg("stem"), py::arg("rules"),
             py::keep_alive<1, 2>())
        .def("add", &FilteredTexts::add, py::arg("cased"), py::arg("lowered"));
}

}  // namespace gnomon
