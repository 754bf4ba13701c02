// One container file: named, typed, 64-byte aligned sections behind a checksummed table.
//
//   header   64 bytes: magic "GNOMON\0\1", format version u32, flags u32, footer offset u64,
//            footer bytes u64, CRC-32C of the footer u32, zeros, CRC-32C of the header u32 in the last four
//   sections raw little-endian arrays, one after the other, each padded with zeros to a multiple of 64 bytes
//   footer   section count u32, 0 u32, then for each section: name (32 bytes, zero-padded), dtype u32, 0 u32,
//            element count u64, offset u64, and one CRC-32C for each block of 64 KiB of its padded bytes
//
// Every byte of the file is covered by one of the checksums. Offsets are those that the writer's layout
// gives, so a table cannot make sections overlap or leave the file. Opening validates header and footer;
// section bytes are verified block by block the first time they are touched (Column::ensure), so opening
// costs no pass over the data and damage is still found before it can reach an answer. Anything wrong is
// CorruptIndex with the file's name. The header's layout is fixed for all versions, so any version can say
// which one a file needs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnomon {

enum class Dtype : std::uint32_t { u8 = 1, u16 = 2, u32 = 3, u64 = 4, i64 = 5, f32 = 6, f64 = 7 };

template <class T>
constexpr Dtype dtype_of();
template <>
constexpr Dtype dtype_of<std::uint8_t>() {
    return Dtype::u8;
}
template <>
constexpr Dtype dtype_of<std::uint16_t>() {
    return Dtype::u16;
}
template <>
constexpr Dtype dtype_of<std::uint32_t>() {
    return Dtype::u32;
}
template <>
constexpr Dtype dtype_of<std::uint64_t>() {
    return Dtype::u64;
}
template <>
constexpr Dtype dtype_of<std::int64_t>() {
    return Dtype::i64;
}
template <>
constexpr Dtype dtype_of<float>() {
    return Dtype::f32;
}
template <>
constexpr Dtype dtype_of<double>() {
    return Dtype::f64;
}

std::size_t dtype_bytes(Dtype dtype);
const char* dtype_name(Dtype dtype);  // as numpy calls it: "uint8" ... "float64"

// A section of a mapped file; owns the mapping together with its siblings.
class MappedSection {
  public:
    virtual ~MappedSection() = default;
    // Verifies the blocks that cover these bytes if no one has yet. Thread safe; one atomic load once the
    // whole section is verified. Throws CorruptIndex when a block is damaged or the bytes leave the section.
    virtual void ensure(std::size_t first_byte, std::size_t n_bytes) const = 0;
    virtual std::string describe() const = 0;  // file and section, for messages
};

// A stored offset led outside its array: CorruptIndex for a mapped section, std::out_of_range in memory.
[[noreturn]] void throw_outside(const MappedSection* section, std::size_t first, std::size_t count,
                                std::size_t size);

// An immutable array that lives in memory or in a mapped file; cheap to copy.
template <class T>
class Column {
  public:
    Column() = default;
    static Column of(std::vector<T> values) {
        Column column;
        auto owner = std::make_shared<const std::vector<T>>(std::move(values));
        column.data_ = owner->data();
        column.size_ = owner->size();
        column.owner_ = owner;
        return column;
    }
    static Column of(const T* data, std::size_t size, std::shared_ptr<const void> owner) {
        Column column;
        column.data_ = data;
        column.size_ = size;
        column.owner_ = std::move(owner);
        return column;
    }
    static Column mapped(const T* data, std::size_t size, std::shared_ptr<const MappedSection> section) {
        Column column = of(data, size, section);
        column.section_ = section.get();
        return column;
    }

    std::size_t size() const { return size_; }
    const T* data() const { return data_; }
    std::span<const T> span() const { return {data_, size_}; }
    // Elements may be read only after ensure() over them. It also refuses a range outside the column, so a
    // caller may pass offsets that it read from a file.
    void ensure(std::size_t first, std::size_t count) const {
        if (first > size_ || count > size_ - first) throw_outside(section_, first, count, size_);
        if (section_ != nullptr) section_->ensure(first * sizeof(T), count * sizeof(T));
    }
    void ensure_all() const { ensure(0, size_); }

  private:
    const T* data_ = nullptr;
    std::size_t size_ = 0;
    std::shared_ptr<const void> owner_;
    const MappedSection* section_ = nullptr;
};

struct SectionInfo {
    std::string name;
    Dtype dtype;
    std::uint64_t count;
};

// Streams one container file to `path` (created anew; an existing file is an error). Nothing is readable
// before finish(), which writes the table, then the header, then fsyncs. Without finish() the destructor
// closes and removes the file. After a FileError the writer takes no more calls. Calls are serialised.
class ContainerWriter {
  public:
    explicit ContainerWriter(const std::string& path);
    ~ContainerWriter();
    ContainerWriter(const ContainerWriter&) = delete;
    ContainerWriter& operator=(const ContainerWriter&) = delete;

    // name: 1 to 31 printable ASCII characters without spaces, used once in the file.
    void begin(std::string_view name, Dtype dtype);
    void append(const void* data, std::size_t bytes);
    void end();
    void finish();
    std::optional<Dtype> open_dtype() const;  // of the section between begin() and end()

    template <class T>
    void section(std::string_view name, std::span<const T> values) {
        begin(name, dtype_of<T>());
        append(values.data(), values.size_bytes());
        end();
    }

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// An open container file. All members are thread safe.
class Container {
  public:
    struct Raw {
        Dtype dtype;
        const std::byte* data;
        std::size_t count;
        std::shared_ptr<const MappedSection> section;  // keeps the mapping alive
    };

    static std::shared_ptr<const Container> open(const std::string& path);
    virtual ~Container() = default;

    virtual const std::string& path() const = 0;
    virtual std::vector<SectionInfo> sections() const = 0;
    virtual bool has(std::string_view name) const = 0;
    // Checks every block of every section. Throws CorruptIndex naming section and block.
    virtual void verify() const = 0;
    // Size and checksum of the table, which covers the checksums of all blocks: together they name the
    // content.
    virtual std::uint64_t file_bytes() const = 0;
    virtual std::uint32_t table_crc() const = 0;
    // Throws CorruptIndex when the section is missing.
    virtual Raw raw(std::string_view name) const = 0;

    // Throws CorruptIndex when the section is missing or of another type.
    template <class T>
    Column<T> column(std::string_view name) const {
        const Raw raw = typed(name, dtype_of<T>());
        return Column<T>::mapped(reinterpret_cast<const T*>(raw.data), raw.count, raw.section);
    }

  private:
    Raw typed(std::string_view name, Dtype dtype) const;
};

}  // namespace gnomon
