#include "bm25_index.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "error.hpp"

namespace gnomon {

namespace {
constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kCountsBefore = 3;  // documents, terms, fields; then two for each field

[[noreturn]] void fail_term(std::uint64_t term, const char* what) {
    throw CorruptIndex("postings of term " + std::to_string(term) + ": " + what +
                       "; build the index again or restore the file");
}
}  // namespace

std::string field_section(std::size_t field, const char* name) { return std::to_string(field) + "." + name; }

std::shared_ptr<const Bm25Index> Bm25Index::of(std::vector<Bm25Field> fields,
                                               std::optional<Vocabulary> vocabulary) {
    auto index = std::make_shared<Bm25Index>();
    index->fields_ = std::move(fields);
    index->vocabulary_ = std::move(vocabulary);
    return index;
}

Postings Bm25Index::postings(std::uint64_t term, std::size_t field) const {
    const Bm25Field& f = fields_[field];
    if (f.packed != nullptr) return f.packed->postings(term);
    if (checked_ != nullptr) {
        std::atomic<bool>& checked = checked_[field * n_terms() + term];
        if (!checked.load(std::memory_order_acquire)) {
            check_term(term, field);
            checked.store(true, std::memory_order_release);
        }
    }
    return f.postings(term);
}

std::uint64_t Bm25Index::count(std::uint64_t term, std::size_t field) const {
    const Bm25Field& f = fields_[field];
    return f.packed != nullptr ? f.packed->count(term) : postings(term, field).docs.size();
}

Postings Bm25Field::postings(std::uint64_t term) const {
    const std::uint64_t first = starts.data()[term];
    const std::uint64_t count = starts.data()[term + 1] - first;
    return {docs.span().subspan(first, count), tfs.span().subspan(first, count), wide(term), nullptr};
}

std::span<const std::uint32_t> Bm25Field::wide(std::uint64_t term) const {
    if (wide_terms.size() == 0) return {};
    const auto terms = wide_terms.span();
    const auto found = std::lower_bound(terms.begin(), terms.end(), term);
    if (found == terms.end() || *found != term) return {};
    const std::uint64_t* const at = wide_starts.data() + (found - terms.begin());
    return wide_tfs.span().subspan(at[0], at[1] - at[0]);
}

void Bm25Index::check_term(std::uint64_t term, std::size_t field) const {
    const Bm25Field& f = fields_[field];
    f.starts.ensure(term, 2);
    const std::uint64_t first = f.starts.data()[term];
    const std::uint64_t last = f.starts.data()[term + 1];
    if (first > last || last > f.docs.size()) fail_term(term, "they lie outside their section");
    f.docs.ensure(first, last - first);
    f.tfs.ensure(first, last - first);
    const std::uint64_t n_docs = f.lengths.size();
    for (std::uint64_t i = first; i < last; ++i) {
        if (f.docs.data()[i] >= n_docs) fail_term(term, "a document does not exist");
        if (i > first && f.docs.data()[i] <= f.docs.data()[i - 1])
            fail_term(term, "documents are not ascending");
        if (f.tfs.data()[i] == 0) fail_term(term, "a term frequency is zero");
    }
    const std::span<const std::uint32_t> wide = f.wide(term);
    if (wide.empty()) return;
    if (wide.size() != last - first) fail_term(term, "its wide frequencies are not as many");
    f.wide_tfs.ensure(static_cast<std::size_t>(wide.data() - f.wide_tfs.data()), wide.size());
    for (std::size_t i = 0; i < wide.size(); ++i)
        if (std::min(wide[i], Bm25Field::kWide) != f.tfs.data()[first + i])
            fail_term(term, "its wide frequencies are not those of its postings");
}

std::uint64_t Bm25Index::memory() const {
    std::uint64_t bytes = vocabulary_ ? vocabulary_->memory() : 0;
    for (const Bm25Field& f : fields_)
        bytes += f.lengths.size() * 4 + f.starts.size() * 8 + f.docs.size() * 5 + f.wide_tfs.size() * 4 +
                 (f.packed == nullptr ? 0 : f.packed->memory()) +
                 (f.positions == nullptr ? 0 : f.positions->memory());
    return bytes;
}

std::size_t Bm25Index::kept() const {
    std::size_t bytes = 0;
    for (const Bm25Field& f : fields_) bytes += f.packed == nullptr ? 0 : f.packed->kept();
    return bytes;
}

std::uint64_t Bm25Index::df(std::uint64_t term) const {
    if (n_fields() == 1) return count(term);
    std::vector<std::uint32_t> docs;
    for (std::size_t field = 0; field < n_fields(); ++field) {
        const Postings list = postings(term, field);
        const auto middle = static_cast<std::ptrdiff_t>(docs.size());
        docs.insert(docs.end(), list.docs.begin(), list.docs.end());
        std::inplace_merge(docs.begin(), docs.begin() + middle, docs.end());
    }
    return static_cast<std::uint64_t>(std::unique(docs.begin(), docs.end()) - docs.begin());
}

// A stored count that contradicts the lengths would bend every score through avgdl.
std::span<const std::uint32_t> Bm25Index::lengths(std::size_t field) const {
    const Bm25Field& f = fields_[field];
    f.lengths.ensure_all();
    std::uint64_t tokens = 0;
    for (const std::uint32_t dl : f.lengths.span()) tokens += dl;
    if (tokens != f.n_tokens)
        throw CorruptIndex("postings: the document lengths add up to " + std::to_string(tokens) +
                           " tokens, the stored count is " + std::to_string(f.n_tokens) +
                           "; build the index again or restore the file");
    return f.lengths.span();
}

void Bm25Index::write_head(ContainerWriter& writer, std::uint64_t version, std::uint64_t n_docs,
                           std::uint64_t n_terms,
                           std::span<const std::pair<std::uint64_t, std::uint64_t>> totals) {
    writer.section("version", std::span<const std::uint64_t>(&version, 1));
    std::vector<std::uint64_t> counts = {n_docs, n_terms, totals.size()};
    for (const auto& [tokens, postings] : totals) {
        counts.push_back(tokens);
        counts.push_back(postings);
    }
    writer.section("counts", std::span<const std::uint64_t>(counts));
}

// Damaged blocks must not get new, matching checksums in the copy: everything is verified first.
void Bm25Index::write(ContainerWriter& writer, bool packed) const {
    packed = packed || is_packed();
    std::vector<std::pair<std::uint64_t, std::uint64_t>> totals;
    for (const Bm25Field& f : fields_) totals.emplace_back(f.n_tokens, f.n_postings());
    write_head(writer, packed ? kPacked : kPlain, n_docs(), n_terms(), totals);
    for (std::size_t field = 0; field < n_fields(); ++field) {
        const Bm25Field& f = fields_[field];
        f.lengths.ensure_all();
        writer.section(field_section(field, "lengths"), f.lengths.span());
        if (packed)
            write_packed(writer, field);
        else
            write_plain(writer, field);
        if (f.positions != nullptr) f.positions->write(writer, field, packed);
    }
    if (vocabulary_) vocabulary_->write(writer);
}

void Bm25Index::write_plain(ContainerWriter& writer, std::size_t field) const {
    const Bm25Field& f = fields_[field];
    const auto section = [&](const char* name, const auto& column) {
        column.ensure_all();
        writer.section(field_section(field, name), column.span());
    };
    section("starts", f.starts);
    section("docs", f.docs);
    section("tfs", f.tfs);
    section("wide_terms", f.wide_terms);
    section("wide_starts", f.wide_starts);
    section("wide_tfs", f.wide_tfs);
}

void Bm25Index::write_packed(ContainerWriter& writer, std::size_t field) const {
    const std::string name = field_section(field, "lists");
    if (fields_[field].packed != nullptr) return fields_[field].packed->copy(writer, name);
    PackedWriter lists(writer, name);
    for (std::uint64_t term = 0; term < n_terms(); ++term) {
        const Postings list = postings(term, field);
        for (std::size_t i = 0; i < list.docs.size(); ++i) lists.add(list.docs[i], list.tf(i));
        lists.end_term();
    }
    lists.end();
}

void Bm25Index::check_counts(const Container& container, const Column<std::uint64_t>& counts) const {
    const auto fail = [&] {
        throw CorruptIndex(container.path() + ": the counts do not agree with the sections");
    };
    if (counts.data()[0] >= kMost || counts.data()[1] >= kMost) fail();
    for (std::size_t field = 0; field < n_fields(); ++field) {
        const Bm25Field& f = fields_[field];
        if (f.lengths.size() != counts.data()[0]) fail();
        if (f.packed != nullptr) continue;
        if (f.starts.size() != counts.data()[1] + 1 ||
            f.docs.size() != counts.data()[kCountsBefore + 2 * field + 1] || f.tfs.size() != f.docs.size() ||
            f.wide_starts.size() != f.wide_terms.size() + 1)
            fail();
    }
}

// The wide terms are few, so they are checked when the file is opened.
void Bm25Index::check_wide(std::size_t field) const {
    const Bm25Field& f = fields_[field];
    f.wide_terms.ensure_all();
    f.wide_starts.ensure_all();
    bool good = f.wide_starts.data()[0] == 0 && f.wide_starts.span().back() == f.wide_tfs.size();
    for (std::size_t i = 0; good && i < f.wide_terms.size(); ++i)
        good = f.wide_terms.data()[i] < n_terms() &&
               (i == 0 || f.wide_terms.data()[i - 1] < f.wide_terms.data()[i]) &&
               f.wide_starts.data()[i] < f.wide_starts.data()[i + 1];
    if (!good)
        throw CorruptIndex("postings: the wide term frequencies do not fit together; build the index again");
}

std::shared_ptr<const Bm25Index> Bm25Index::open(const std::shared_ptr<const Container>& container) {
    const auto version =
        container->has("version") ? container->column<std::uint64_t>("version") : Column<std::uint64_t>();
    version.ensure_all();
    if (version.size() != 1 || (version.data()[0] != kPlain && version.data()[0] != kPacked))
        throw CorruptIndex(container->path() + ": a BM25 segment of format version " +
                           std::to_string(version.size() == 1 ? version.data()[0] : 1) +
                           ", but this gnomon reads " + std::to_string(kPlain) + " and " +
                           std::to_string(kPacked) + "; build the index again");
    auto index = std::make_shared<Bm25Index>();
    const Column<std::uint64_t> counts = container->column<std::uint64_t>("counts");
    counts.ensure_all();
    const auto fail = [&] {
        throw CorruptIndex(container->path() + ": the counts do not agree with the sections");
    };
    if (counts.size() < kCountsBefore || counts.data()[2] == 0 || counts.data()[2] > kFieldsMost ||
        counts.size() != kCountsBefore + 2 * counts.data()[2])
        fail();
    for (std::size_t field = 0; field < counts.data()[2]; ++field) {
        const auto name = [&](const char* what) { return field_section(field, what); };
        Bm25Field f;
        f.n_tokens = counts.data()[kCountsBefore + 2 * field];
        f.lengths = container->column<std::uint32_t>(name("lengths"));
        if (version.data()[0] == kPacked) {
            if (f.lengths.size() != counts.data()[0] || counts.data()[1] >= kMost) fail();
            f.packed = std::make_shared<const PackedLists>(*container, name("lists"), counts.data()[0],
                                                           counts.data()[1],
                                                           counts.data()[kCountsBefore + 2 * field + 1]);
            index->fields_.push_back(std::move(f));
            continue;
        }
        f.starts = container->column<std::uint64_t>(name("starts"));
        f.docs = container->column<std::uint32_t>(name("docs"));
        f.tfs = container->column<std::uint8_t>(name("tfs"));
        f.wide_terms = container->column<std::uint32_t>(name("wide_terms"));
        f.wide_starts = container->column<std::uint64_t>(name("wide_starts"));
        f.wide_tfs = container->column<std::uint32_t>(name("wide_tfs"));
        index->fields_.push_back(std::move(f));
    }
    index->check_counts(*container, counts);
    if (container->has(field_section(0, "pos_bytes")))
        for (std::size_t field = 0; field < index->n_fields(); ++field)
            index->fields_[field].positions =
                Bm25Positions::open(*container, field, index->n_terms(), index->is_packed());
    for (std::size_t field = 0; field < index->n_fields(); ++field)
        if (!index->is_packed()) index->check_wide(field);
    if (container->has("vocabulary.slots"))
        index->vocabulary_ = Vocabulary::open(*container, index->n_terms());
    const std::size_t n_lists = index->is_packed() ? 0 : index->n_terms() * index->n_fields();
    index->checked_ = std::make_unique<std::atomic<bool>[]>(n_lists);
    return index;
}

void Bm25Index::verify() const {
    for (std::size_t field = 0; field < n_fields(); ++field) verify_field(field);
    if (vocabulary_) vocabulary_->verify();
}

// That each term starts where the one before ends.
void Bm25Index::verify_arrays(std::size_t field) const {
    const Bm25Field& f = fields_[field];
    if (f.packed != nullptr) return f.packed->verify();
    f.starts.ensure_all();
    std::uint64_t expected = 0;
    for (std::uint64_t term = 0; term < n_terms(); ++term) {
        if (f.starts.data()[term] != expected)
            throw CorruptIndex("postings: the terms leave a gap or overlap");
        expected += count(term, field);
    }
}

void Bm25Index::verify_field(std::size_t field) const {
    const std::span<const std::uint32_t> all = lengths(field);
    std::vector<std::uint64_t> left(all.begin(), all.end());
    verify_arrays(field);
    std::uint64_t found = 0;
    std::uint64_t wide = 0;
    for (std::uint64_t term = 0; term < n_terms(); ++term) {
        const Postings list = postings(term, field);
        found += list.docs.size();
        wide += list.wide.size();
        for (std::size_t i = 0; i < list.docs.size(); ++i) left[list.docs[i]] -= list.tf(i);
        if (has_positions()) positions(term, list, field);
    }
    if (has_positions()) fields_[field].positions->verify_starts();
    if (found != n_postings(field)) throw CorruptIndex("postings: some belong to no term");
    if (!is_packed() && wide != fields_[field].wide_tfs.size())
        throw CorruptIndex("postings: some wide frequencies belong to no term");
    for (std::size_t doc = 0; doc < left.size(); ++doc)
        if (left[doc] != 0)
            throw CorruptIndex("postings: the term frequencies of document " + std::to_string(doc) +
                               " do not add up to its length");
}

}  // namespace gnomon
