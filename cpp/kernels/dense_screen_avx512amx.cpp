// The integer screen on AMX: one instruction multiplies sixteen queries by sixteen rows over 64 dims. Four
// accumulator tiles are a panel's 64 rows; a panel's codes are in the layout of the second operand as they
// lie. Tile registers are configured and released in each call: nothing of them is left to the caller, and a
// context switch saves them only while a call runs. Of few queries only their rows are computed.
#include <immintrin.h>

#include "kernels.hpp"

namespace gnomon::avx512amx {

namespace {

struct alignas(64) TileConfig {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
};

constexpr std::size_t kStep = 16;  // steps of four dims that one instruction takes

}  // namespace

// Tiles 0-3: sums; 4 and 5: whole steps of queries and rows; 6 and 7: the rest, or rows as 5 where there is
// none, so that loads run ahead of the products.
static void configure(std::size_t n, std::size_t rest) noexcept {
    TileConfig config;
    for (int t = 0; t < 4; ++t) {
        config.rows[t] = static_cast<std::uint8_t>(n);
        config.row_bytes[t] = 64;
    }
    config.rows[4] = static_cast<std::uint8_t>(n);
    config.row_bytes[4] = 64;
    config.rows[5] = 16;
    config.row_bytes[5] = 64;
    config.rows[6] = config.rows[7] = 16;
    config.row_bytes[6] = config.row_bytes[7] = 64;
    if (rest != 0) {
        config.rows[6] = static_cast<std::uint8_t>(n);
        config.row_bytes[6] = static_cast<std::uint16_t>(rest * 4);
        config.rows[7] = static_cast<std::uint8_t>(rest);
        config.row_bytes[7] = 64;
    }
    _tile_loadconfig(&config);
}

static void fetch(const std::uint8_t* step) noexcept {
    for (std::size_t byte = 0; byte < kPanelRows * 4; byte += 64)
        _mm_prefetch(reinterpret_cast<const char*>(step + byte), _MM_HINT_T1);
}

// Adds `steps` steps to the four tiles of sums.
static void add_steps(const std::uint8_t* panel, const std::int8_t* queries, std::size_t steps,
                      std::size_t stride, bool no_rest) noexcept {
    std::size_t s = 0;
    if (no_rest) {
        for (; s < steps; s += kStep) {
            const std::uint8_t* const rows = panel + s * kPanelRows * 4;
            _tile_loadd(4, queries + s * 4, stride * 4);
            _tile_loadd(5, rows, kPanelRows * 4);
            _tile_loadd(6, rows + 64, kPanelRows * 4);
            _tile_dpbsud(0, 4, 5);
            _tile_loadd(7, rows + 128, kPanelRows * 4);
            _tile_dpbsud(1, 4, 6);
            _tile_loadd(5, rows + 192, kPanelRows * 4);
            _tile_dpbsud(2, 4, 7);
            _tile_dpbsud(3, 4, 5);
        }
        return;
    }
    for (; s + kStep <= steps; s += kStep) {
        const std::uint8_t* const rows = panel + s * kPanelRows * 4;
        _tile_loadd(4, queries + s * 4, stride * 4);
        _tile_loadd(5, rows, kPanelRows * 4);
        _tile_dpbsud(0, 4, 5);
        _tile_loadd(5, rows + 64, kPanelRows * 4);
        _tile_dpbsud(1, 4, 5);
        _tile_loadd(5, rows + 128, kPanelRows * 4);
        _tile_dpbsud(2, 4, 5);
        _tile_loadd(5, rows + 192, kPanelRows * 4);
        _tile_dpbsud(3, 4, 5);
    }
    if (s == steps) return;
    const std::uint8_t* const rows = panel + s * kPanelRows * 4;
    _tile_loadd(6, queries + s * 4, stride * 4);
    _tile_loadd(7, rows, kPanelRows * 4);
    _tile_dpbsud(0, 6, 7);
    _tile_loadd(7, rows + 64, kPanelRows * 4);
    _tile_dpbsud(1, 6, 7);
    _tile_loadd(7, rows + 128, kPanelRows * 4);
    _tile_dpbsud(2, 6, 7);
    _tile_loadd(7, rows + 192, kPanelRows * 4);
    _tile_dpbsud(3, 6, 7);
}

static void store(std::int32_t* acc) noexcept {
    _tile_stored(0, acc, kPanelRows * 4);
    _tile_stored(1, acc + 16, kPanelRows * 4);
    _tile_stored(2, acc + 32, kPanelRows * 4);
    _tile_stored(3, acc + 48, kPanelRows * 4);
}

static void load(const std::int32_t* acc) noexcept {
    _tile_loadd(0, acc, kPanelRows * 4);
    _tile_loadd(1, acc + 16, kPanelRows * 4);
    _tile_loadd(2, acc + 32, kPanelRows * 4);
    _tile_loadd(3, acc + 48, kPanelRows * 4);
}

static void shift_left(std::int32_t* acc, std::size_t n, int shift) noexcept {
    for (std::size_t i = 0; i < n * kPanelRows; i += 16)
        _mm512_storeu_si512(
            acc + i, _mm512_maskz_sll_epi32(0xFFFF, _mm512_loadu_si512(acc + i), _mm_cvtsi32_si128(shift)));
}

static void compare(const std::int32_t* init, const std::int32_t* thresholds, std::size_t n,
                    std::int32_t* acc, std::uint64_t* masks) noexcept {
    for (std::size_t q = 0; q < n; ++q) {
        const __m512i start = _mm512_set1_epi32(init[q]);
        const __m512i limit = _mm512_set1_epi32(thresholds[q]);
        std::int32_t* const sums = acc + q * kPanelRows;
        std::uint64_t mask = 0;
#pragma GCC unroll 4
        for (std::size_t r = 0; r < kPanelRows; r += 16) {
            const __m512i sum = _mm512_add_epi32(_mm512_loadu_si512(sums + r), start);
            _mm512_storeu_si512(sums + r, sum);
            mask |= static_cast<std::uint64_t>(_mm512_cmpge_epi32_mask(sum, limit)) << r;
        }
        masks[q] = mask;
    }
}

// Sums of one query over some steps, on top of those in acc.
static void add_one(const std::uint8_t* panel, const std::int8_t* query, std::size_t steps, std::size_t ahead,
                    std::int32_t* acc) noexcept {
    __m512i sum[4];
#pragma GCC unroll 4
    for (int z = 0; z < 4; ++z) sum[z] = _mm512_loadu_si512(acc + z * 16);
    for (std::size_t s = 0; s < steps; ++s) {
        if (ahead != 0) fetch(panel + ahead);
        std::int32_t word;
        __builtin_memcpy(&word, query + s * 4, 4);
        const __m512i four = _mm512_set1_epi32(word);
#pragma GCC unroll 4
        for (int z = 0; z < 4; ++z)
            sum[z] = _mm512_dpbusd_epi32(sum[z], _mm512_loadu_si512(panel + z * 64), four);
        panel += kPanelRows * 4;
    }
#pragma GCC unroll 4
    for (int z = 0; z < 4; ++z) _mm512_storeu_si512(acc + z * 16, sum[z]);
}

// For less than four queries VNNI is as fast, and reads ahead where tiles cannot.
static void few(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                const std::int32_t* init, const std::int32_t* thresholds, std::size_t n, std::int32_t* acc,
                std::uint64_t* masks) noexcept {
    for (std::size_t i = 0; i < n * kPanelRows; i += 16) _mm512_storeu_si512(acc + i, _mm512_setzero_si512());
    for (std::size_t q = 0; q < n; ++q) {
        const std::int8_t* const query = queries + q * shape.stride * 4;
        std::int32_t* const sums = acc + q * kPanelRows;
        const std::size_t ahead = shape.ahead && q == 0 ? shape.stride * kPanelRows * 4 : 0;
        add_one(panel, query, shape.head, ahead, sums);
        if (shape.head != 0) shift_left(sums, 1, shape.shift);
        add_one(panel + shape.head * kPanelRows * 4, query + shape.head * 4, shape.steps - shape.head, ahead,
                sums);
    }
    compare(init, thresholds, n, acc, masks);
}

void dense_screen(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                  const std::int32_t* init, const std::int32_t* thresholds, std::size_t n, std::int32_t* acc,
                  std::uint64_t* masks) noexcept {
    if (n < 4) return few(panel, queries, shape, init, thresholds, n, acc, masks);
    if (shape.ahead)
        for (std::size_t s = 0; s < shape.steps; ++s) fetch(panel + (shape.stride + s) * kPanelRows * 4);
    const std::size_t rest = (shape.steps - shape.head) % kStep;  // heads have none
    configure(n, rest);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (shape.head != 0) {
        add_steps(panel, queries, shape.head, shape.stride, rest == 0);
        store(acc);
        shift_left(acc, n, shape.shift);
        load(acc);
    }
    add_steps(panel + shape.head * kPanelRows * 4, queries + shape.head * 4, shape.steps - shape.head,
              shape.stride, rest == 0);
    store(acc);
    _tile_release();
    compare(init, thresholds, n, acc, masks);
}

}  // namespace gnomon::avx512amx
