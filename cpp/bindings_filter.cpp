// gnomon._core: texts through stop words, stemmer and synonyms into a builder.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "analyze_filter.hpp"
#include "bindings.hpp"
#include "bm25_index.hpp"
#include "error.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

class FilteredTexts {
  public:
    FilteredTexts(Bm25Builder& builder, std::string_view preset, py::function resolve,
                  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>>& rules)
        : builder_(builder), filter_(preset_named(preset), own(rules)), resolve_(std::move(resolve)) {}

    void add(const py::list& cased, const py::list& lowered) {
        if (cased.size() != lowered.size()) throw InvalidInput("cased and lowered must have the same length");
        std::vector<std::pair<TextView, TextView>> views;
        for (std::size_t i = 0; i < cased.size(); ++i)
            views.emplace_back(text_view(cased[i]), text_view(lowered[i]));
        {
            const py::gil_scoped_release release;
            for (const auto& [text, lower] : views) filter_.add_text(text, lower);
        }
        resolve_new();
        const py::gil_scoped_release release;
        filter_.drain([this](std::string_view term) { return builder_.add_token(term); },
                      [this](std::uint32_t term) { builder_.add_term(term); },
                      [this] { builder_.end_document(); });
    }

  private:
    static std::vector<SynonymRule> own(
        const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>>& rules) {
        std::vector<SynonymRule> found;
        for (const auto& [key, added] : rules) found.push_back({key, added});
        return found;
    }

    void resolve_new() {
        const std::size_t n = filter_.n_unresolved();
        py::list tokens;
        py::list wholes;
        for (std::size_t i = 0; i < n; ++i) {
            const auto [text, whole] = filter_.unresolved(i);
            tokens.append(to_str(text));
            wholes.append(py::bool_(whole));
        }
        const py::list terms = resolve_(tokens, wholes);
        if (terms.size() != n)
            throw InvalidInput("resolve must return one term a token, " + std::to_string(n) + ", got " +
                               std::to_string(terms.size()));
        for (const py::handle term : terms) {
            py::object owner;
            if (term.is_none())
                filter_.resolve(std::nullopt);
            else if (PyUnicode_Check(term.ptr()))
                filter_.resolve(utf8_view(term, owner));
            else
                throw py::type_error("resolve must return str or None for each token");
        }
    }

    Bm25Builder& builder_;
    TextFilter filter_;
    py::function resolve_;
};

}  // namespace

void register_filter(py::module_& module) {
    py::class_<FilteredTexts>(module, "FilteredTexts", py::is_final(),
                              "Takes texts into a builder, each distinct token filtered once.")
        .def(py::init<Bm25Builder&, std::string_view, py::function,
                      std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>>>(),
             py::arg("builder"), py::arg("preset"), py::arg("resolve"), py::arg("rules"),
             py::keep_alive<1, 2>())
        .def("add", &FilteredTexts::add, py::arg("cased"), py::arg("lowered"));
}

}  // namespace gnomon
