// Container: validate the table, map the file, verify blocks on first touch. ContainerWriter is in
// storage_writer.cpp.
#include "storage.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>

#include "crc32c.hpp"
#include "error.hpp"
#include "storage_format.hpp"

namespace gnomon {
namespace {

[[noreturn]] void corrupt(const std::string& where, const std::string& what) {
    throw CorruptIndex(where + ": " + what + "; restore the file from a copy or build the index again");
}

struct DtypeInfo {
    std::size_t bytes;
    const char* name;
};
constexpr DtypeInfo kDtypes[] = {{0, ""},       {1, "uint8"}, {2, "uint16"},  {4, "uint32"},
                                 {8, "uint64"}, {8, "int64"}, {4, "float32"}, {8, "float64"}};
constexpr std::uint32_t kDtypeMax = static_cast<std::uint32_t>(std::size(kDtypes)) - 1;

class Descriptor {
  public:
    explicit Descriptor(const std::string& path) {
        // O_NONBLOCK: opening a pipe must not wait for a writer.
        fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd_ < 0) throw FileError(errno, path);
    }
    ~Descriptor() { ::close(fd_); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return fd_; }

  private:
    int fd_;
};

void read_exactly(int fd, const std::string& path, void* data, std::size_t bytes, std::uint64_t offset) {
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
        const ssize_t n = ::pread(fd, at, bytes, static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw FileError(errno, path);
        if (n == 0) corrupt(path, "the file was cut off while it was read");
        at += n;
        offset += static_cast<std::uint64_t>(n);
        bytes -= static_cast<std::size_t>(n);
    }
}

std::uint64_t file_size(int fd, const std::string& path) {
    struct stat info{};
    if (::fstat(fd, &info) != 0) throw FileError(errno, path);
    if (S_ISDIR(info.st_mode)) throw FileError(EISDIR, path);
    if (!S_ISREG(info.st_mode)) corrupt(path, "not a regular file");
    return static_cast<std::uint64_t>(info.st_size);
}

// Owns the mapping; shared by the container and every column of it.
class Mapping {
  public:
    Mapping(int fd, const std::string& path, std::size_t bytes) : bytes_(bytes) {
        void* at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED) throw FileError(errno, path);
        data_ = static_cast<const std::byte*>(at);
    }
    ~Mapping() { ::munmap(const_cast<std::byte*>(data_), bytes_); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    const std::byte* data() const { return data_; }

  private:
    const std::byte* data_;
    std::size_t bytes_;
};

class Section final : public MappedSection {
  public:
    Section(const std::string& path, const format::Entry& entry, std::vector<std::uint32_t> crcs,
            const Mapping& mapping)
        : path_(path),
          name_(entry.name),
          dtype_(static_cast<Dtype>(entry.dtype)),
          count_(entry.count),
          data_(mapping.data() + entry.offset),
          crcs_(std::move(crcs)),
          verified_((crcs_.size() + 63) / 64),
          left_(crcs_.size()) {}

    void ensure(std::size_t first, std::size_t bytes) const override {
        const std::size_t size = count_ * dtype_bytes(dtype_);
        if (first > size || bytes > size - first) throw_outside(this, first, bytes, size);
        if (bytes == 0 || left_.load(std::memory_order_acquire) == 0) return;
        const std::size_t last = (first + bytes - 1) / format::kBlock;
        for (std::size_t block = first / format::kBlock; block <= last; ++block) ensure_block(block);
    }
    std::string describe() const override { return path_ + ": section '" + name_ + "'"; }

    void verify() const { ensure(0, count_ * dtype_bytes(dtype_)); }
    SectionInfo info() const { return {name_, dtype_, count_}; }
    const std::byte* data() const { return data_; }

  private:
    // Two threads may both check a block; only the one that sets its bit counts it.
    void ensure_block(std::size_t block) const {
        std::atomic<std::uint64_t>& word = verified_[block / 64];
        const std::uint64_t bit = std::uint64_t{1} << (block % 64);
        if ((word.load(std::memory_order_acquire) & bit) != 0) return;
        const std::uint64_t padded = format::aligned(count_ * dtype_bytes(dtype_));
        const std::size_t start = block * format::kBlock;
        const std::size_t bytes = std::min<std::size_t>(format::kBlock, padded - start);
        if (crc32c(data_ + start, bytes) != crcs_[block]) {
            corrupt(describe(),
                    "damaged block " + std::to_string(block) + " of " + std::to_string(crcs_.size()));
        }
        if ((word.fetch_or(bit, std::memory_order_acq_rel) & bit) == 0) {
            left_.fetch_sub(1, std::memory_order_acq_rel);
        }
    }

    std::string path_;
    std::string name_;
    Dtype dtype_;
    std::uint64_t count_;
    const std::byte* data_;
    std::vector<std::uint32_t> crcs_;
    mutable std::vector<std::atomic<std::uint64_t>> verified_;  // a bit for each block
    mutable std::atomic<std::size_t> left_;                     // blocks that no one has verified
};

format::Header read_header(int fd, const std::string& path, std::uint64_t size) {
    format::Header header{};
    if (size < sizeof header)
        corrupt(path, "too short for a gnomon file (" + std::to_string(size) + " bytes)");
    read_exactly(fd, path, &header, sizeof header, 0);
    if (std::memcmp(header.magic, format::kMagic, sizeof header.magic) != 0) {
        corrupt(path, "not a gnomon file, or one whose writing was not finished");
    }
    if (header.crc != crc32c(&header, offsetof(format::Header, crc))) corrupt(path, "damaged header");
    if (header.version != format::kVersion) {
        throw CorruptIndex(path + ": format version " + std::to_string(header.version) +
                           ", but this gnomon reads " + std::to_string(format::kVersion) +
                           "; read it with the gnomon that wrote it, or build the index again");
    }
    const std::uint8_t zeros[sizeof header.zeros] = {};
    if (header.flags != 0 || std::memcmp(header.zeros, zeros, sizeof zeros) != 0) {
        corrupt(path, "unknown flags in the header");
    }
    if (header.footer_bytes > size || header.footer_offset != size - header.footer_bytes) {
        corrupt(path, "cut off or extended: the header describes another size than " + std::to_string(size) +
                          " bytes");
    }
    return header;
}

std::vector<std::byte> read_footer(int fd, const std::string& path, const format::Header& header) {
    // Bounded before anything is allocated: a header may claim what it likes.
    const std::uint64_t most = sizeof(format::FooterHead) +
                               format::kSectionsMax * (sizeof(format::Entry) + sizeof(std::uint32_t)) +
                               format::blocks(header.footer_offset) * sizeof(std::uint32_t);
    if (header.footer_offset < sizeof header || header.footer_offset % format::kAlign != 0 ||
        header.footer_bytes < sizeof(format::FooterHead) || header.footer_bytes > most) {
        corrupt(path, "impossible place or size of the table");
    }
    std::vector<std::byte> footer(header.footer_bytes);
    read_exactly(fd, path, footer.data(), footer.size(), header.footer_offset);
    if (header.footer_crc != crc32c(footer.data(), footer.size())) corrupt(path, "damaged table");
    return footer;
}

// A cursor over the footer that cannot leave it.
class FooterReader {
  public:
    FooterReader(const std::vector<std::byte>& footer, const std::string& path)
        : left_(footer), path_(path) {}
    void take(void* data, std::uint64_t bytes) {
        if (bytes > left_.size()) corrupt(path_, "the table ends too early");
        if (bytes == 0) return;
        std::memcpy(data, left_.data(), bytes);
        left_ = left_.subspan(bytes);
    }
    void check_room(std::uint64_t bytes) const {
        if (bytes > left_.size()) corrupt(path_, "the table ends too early");
    }
    bool done() const { return left_.empty(); }

  private:
    std::span<const std::byte> left_;
    const std::string& path_;
};

// Checks one entry against the writer's layout: it must start at `offset` and end before `limit`.
// Returns the bytes of its elements.
std::uint64_t check_entry(const format::Entry& entry, const std::string& path, std::uint64_t offset,
                          std::uint64_t limit) {
    const std::size_t length = ::strnlen(entry.name, format::kNameBytes);
    const bool padded =
        std::all_of(entry.name + length, entry.name + format::kNameBytes, [](char c) { return c == '\0'; });
    if (length == 0 || length == format::kNameBytes || !padded ||
        !std::all_of(entry.name, entry.name + length, format::printable)) {
        corrupt(path, "a section name in the table is not printable");
    }
    const std::string where = path + ": section '" + entry.name + "'";
    if (entry.dtype == 0 || entry.dtype > kDtypeMax) {
        corrupt(where, "unknown element type " + std::to_string(entry.dtype));
    }
    if (entry.zero != 0) corrupt(where, "unknown flags in the table");
    if (entry.offset != offset) corrupt(where, "not at its place in the file");
    const std::uint64_t room = (limit - offset) / kDtypes[entry.dtype].bytes;
    if (entry.count > room) corrupt(where, "more elements than the file holds");
    return entry.count * kDtypes[entry.dtype].bytes;
}

class File final : public Container, public std::enable_shared_from_this<File> {
  public:
    File(const std::string& path, const Descriptor& file) : File(path, file, file_size(file.get(), path)) {}

    const std::string& path() const override { return path_; }
    std::vector<SectionInfo> sections() const override {
        std::vector<SectionInfo> infos;
        infos.reserve(order_.size());
        for (const Section* section : order_) infos.push_back(section->info());
        return infos;
    }
    bool has(std::string_view name) const override { return by_name_.contains(name); }
    void verify() const override {
        for (const Section* section : order_) section->verify();
    }
    std::uint64_t file_bytes() const override { return bytes_; }
    std::uint32_t table_crc() const override { return header_.footer_crc; }
    Raw raw(std::string_view name) const override {
        const auto found = by_name_.find(name);
        if (found == by_name_.end()) corrupt(path_, "no section '" + std::string(name) + "'");
        const Section& section = found->second;
        const SectionInfo info = section.info();
        return {info.dtype, section.data(), info.count, {shared_from_this(), &section}};
    }

  private:
    File(const std::string& path, const Descriptor& file, std::uint64_t bytes)
        : path_(path),
          bytes_(bytes),
          header_(read_header(file.get(), path, bytes)),
          mapping_(file.get(), path, bytes) {
        read_table(read_footer(file.get(), path, header_));
    }

    void read_table(const std::vector<std::byte>& footer) {
        FooterReader reader(footer, path_);
        format::FooterHead head{};
        reader.take(&head, sizeof head);
        if (head.count > format::kSectionsMax || head.zero != 0)
            corrupt(path_, "impossible count of sections");
        std::uint64_t offset = sizeof(format::Header);
        for (std::uint32_t i = 0; i < head.count; ++i) {
            format::Entry entry{};
            reader.take(&entry, sizeof entry);
            const std::uint64_t bytes = check_entry(entry, path_, offset, header_.footer_offset);
            reader.check_room(format::blocks(bytes) * sizeof(std::uint32_t));
            std::vector<std::uint32_t> crcs(format::blocks(bytes));
            reader.take(crcs.data(), crcs.size() * sizeof(std::uint32_t));
            const auto [at, is_new] =
                by_name_.try_emplace(entry.name, path_, entry, std::move(crcs), mapping_);
            if (!is_new) corrupt(path_, "two sections named '" + at->first + "'");
            order_.push_back(&at->second);
            offset = format::aligned(offset + bytes);
        }
        if (!reader.done()) corrupt(path_, "the table is longer than its sections");
        if (offset != header_.footer_offset) corrupt(path_, "bytes that belong to no section");
    }

    std::string path_;
    std::uint64_t bytes_;
    format::Header header_;
    Mapping mapping_;
    std::map<std::string, Section, std::less<>> by_name_;
    std::vector<const Section*> order_;
};

}  // namespace

std::size_t dtype_bytes(Dtype dtype) { return kDtypes[static_cast<std::uint32_t>(dtype)].bytes; }
const char* dtype_name(Dtype dtype) { return kDtypes[static_cast<std::uint32_t>(dtype)].name; }

void throw_outside(const MappedSection* section, std::size_t first, std::size_t count, std::size_t size) {
    const std::string what = "range of " + std::to_string(count) + " from " + std::to_string(first) +
                             " leaves an array of " + std::to_string(size);
    if (section == nullptr) throw std::out_of_range(what);
    corrupt(section->describe(), what);
}

std::shared_ptr<const Container> Container::open(const std::string& path) {
    const Descriptor file(path);
    return std::make_shared<File>(path, file);
}

Container::Raw Container::typed(std::string_view name, Dtype dtype) const {
    Raw found = raw(name);
    if (found.dtype != dtype) {
        corrupt(found.section->describe(), std::string("elements are ") + dtype_name(found.dtype) +
                                               " where " + dtype_name(dtype) + " is needed");
    }
    return found;
}

}  // namespace gnomon
