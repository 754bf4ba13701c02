// ContainerWriter: one pass, one buffer, checksums computed while the bytes go by.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_set>

#include "crc32c.hpp"
#include "error.hpp"
#include "storage.hpp"
#include "storage_format.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kBufferBytes = 1024 * 1024;

void check_name(std::string_view name) {
    const bool fits = !name.empty() && name.size() < format::kNameBytes;
    if (!fits || !std::all_of(name.begin(), name.end(), format::printable)) {
        throw InvalidInput("section name must be 1 to 31 printable ASCII characters without spaces, got '" +
                           std::string(name) + "'");
    }
}

}  // namespace

struct ContainerWriter::State {
    struct Section {
        format::Entry entry{};
        std::vector<std::uint32_t> crcs;
    };

    explicit State(const std::string& file) : path(file), buffer(kBufferBytes) {
        fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0) throw FileError(errno, path);
        const format::Header empty{};  // no magic: an unfinished file opens nowhere
        put(&empty, sizeof empty);
    }
    ~State() {
        if (fd >= 0) ::close(fd);
        if (!finished) ::unlink(path.c_str());
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    [[noreturn]] void fail(int code) {
        failed = true;
        throw FileError(code, path);
    }
    void check_usable() const {
        if (finished) throw InvalidInput("container " + path + " is finished: it takes no more sections");
        if (failed)
            throw InvalidInput("container " + path + " failed to be written before: start a new file");
    }
    void write_all(const void* data, std::size_t bytes) {
        const auto* at = static_cast<const char*>(data);
        while (bytes > 0) {
            const ssize_t n = ::write(fd, at, bytes);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) fail(n < 0 ? errno : ENOSPC);
            at += n;
            bytes -= static_cast<std::size_t>(n);
        }
    }
    void flush() {
        write_all(buffer.data(), filled);
        filled = 0;
    }
    void put(const void* data, std::size_t bytes) {
        if (bytes == 0) return;
        if (bytes > buffer.size() - filled) flush();
        if (bytes >= buffer.size()) {
            write_all(data, bytes);
        } else {
            std::memcpy(buffer.data() + filled, data, bytes);
            filled += bytes;
        }
        position += bytes;
    }
    // Section bytes: a checksum is kept for each block as it fills.
    void put_checked(const void* data, std::size_t bytes) {
        const auto* at = static_cast<const std::byte*>(data);
        std::vector<std::uint32_t>& crcs = sections.back().crcs;
        for (std::size_t left = bytes; left > 0;) {
            if (in_block == 0) crcs.push_back(0);
            const std::size_t n = std::min(left, format::kBlock - in_block);
            crcs.back() = crc32c(at, n, crcs.back());
            in_block = (in_block + n) % format::kBlock;
            at += n;
            left -= n;
        }
        put(data, bytes);
    }
    std::vector<std::byte> footer() const {
        std::vector<std::byte> bytes;
        const auto add = [&bytes](const void* data, std::size_t n) {
            const auto* first = static_cast<const std::byte*>(data);
            bytes.insert(bytes.end(), first, first + n);
        };
        const format::FooterHead head{static_cast<std::uint32_t>(sections.size()), 0};
        add(&head, sizeof head);
        for (const Section& section : sections) {
            add(&section.entry, sizeof section.entry);
            add(section.crcs.data(), section.crcs.size() * sizeof(std::uint32_t));
        }
        return bytes;
    }
    void write_header(const std::vector<std::byte>& table, std::uint64_t table_offset) {
        format::Header header{};
        std::memcpy(header.magic, format::kMagic, sizeof header.magic);
        header.version = format::kVersion;
        header.footer_offset = table_offset;
        header.footer_bytes = table.size();
        header.footer_crc = crc32c(table.data(), table.size());
        header.crc = crc32c(&header, offsetof(format::Header, crc));
        if (::lseek(fd, 0, SEEK_SET) != 0) fail(errno);
        write_all(&header, sizeof header);
    }

    mutable std::mutex lock;
    std::string path;
    int fd = -1;
    bool failed = false;
    bool finished = false;
    std::vector<std::byte> buffer;
    std::size_t filled = 0;
    std::uint64_t position = 0;  // in the file, with what the buffer holds
    std::vector<Section> sections;
    std::unordered_set<std::string> names;
    bool open = false;  // between begin() and end(): the last section
    std::size_t in_block = 0;
};

ContainerWriter::ContainerWriter(const std::string& path) : state_(std::make_unique<State>(path)) {}
ContainerWriter::~ContainerWriter() = default;

void ContainerWriter::begin(std::string_view name, Dtype dtype) {
    const std::lock_guard<std::mutex> guard(state_->lock);
    state_->check_usable();
    if (state_->open) throw InvalidInput("a section is still open: call end() before the next begin()");
    check_name(name);
    if (state_->sections.size() == format::kSectionsMax) {
        throw InvalidInput("a container holds at most " + std::to_string(format::kSectionsMax) + " sections");
    }
    if (!state_->names.insert(std::string(name)).second) {
        throw InvalidInput("section name must be new in the file, got '" + std::string(name) + "' twice");
    }
    State::Section& section = state_->sections.emplace_back();
    std::memcpy(section.entry.name, name.data(), name.size());
    section.entry.dtype = static_cast<std::uint32_t>(dtype);
    section.entry.offset = state_->position;
    state_->open = true;
    state_->in_block = 0;
}

void ContainerWriter::append(const void* data, std::size_t bytes) {
    const std::lock_guard<std::mutex> guard(state_->lock);
    state_->check_usable();
    if (!state_->open) throw InvalidInput("no section is open: call begin(name, dtype) before append()");
    state_->put_checked(data, bytes);
}

void ContainerWriter::end() {
    const std::lock_guard<std::mutex> guard(state_->lock);
    state_->check_usable();
    if (!state_->open) throw InvalidInput("no section is open: call begin(name, dtype) before end()");
    format::Entry& entry = state_->sections.back().entry;
    const std::uint64_t bytes = state_->position - entry.offset;
    const std::size_t size = dtype_bytes(static_cast<Dtype>(entry.dtype));
    if (bytes % size != 0) {
        throw InvalidInput("section '" + std::string(entry.name) + "' must hold whole elements of " +
                           std::to_string(size) + " bytes, got " + std::to_string(bytes) + " bytes");
    }
    entry.count = bytes / size;
    const std::byte zeros[format::kAlign] = {};
    state_->put_checked(zeros, format::aligned(state_->position) - state_->position);
    state_->open = false;
}

void ContainerWriter::finish() {
    const std::lock_guard<std::mutex> guard(state_->lock);
    state_->check_usable();
    if (state_->open) throw InvalidInput("a section is still open: call end() before finish()");
    const std::vector<std::byte> table = state_->footer();
    const std::uint64_t table_offset = state_->position;
    state_->put(table.data(), table.size());
    state_->flush();
    state_->write_header(table, table_offset);
    if (::fsync(state_->fd) != 0) state_->fail(errno);
    const int closed = ::close(state_->fd);
    state_->fd = -1;  // the descriptor is gone even when close reports an error
    if (closed != 0) state_->fail(errno);
    state_->finished = true;
}

std::optional<Dtype> ContainerWriter::open_dtype() const {
    const std::lock_guard<std::mutex> guard(state_->lock);
    if (!state_->open) return std::nullopt;
    return static_cast<Dtype>(state_->sections.back().entry.dtype);
}

}  // namespace gnomon
