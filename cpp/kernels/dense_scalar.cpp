// Dense kernels, portable level: the order of additions of kernels.hpp, written out.
#include "dense_common.hpp"

namespace gnomon::scalar {

static double reduce(const double* lane) noexcept {
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static void dots(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
                 std::size_t stride, std::size_t dim, double* out) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        const float* row = rows + (ids != nullptr ? ids[i] : i) * stride;
        double lane[8] = {};
        for (std::size_t d = 0; d < dim; ++d) lane[d % 8] += query[d] * static_cast<double>(row[d]);
        out[i] = reduce(lane);
    }
}

static void distances(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
                      std::size_t stride, std::size_t dim, double* out) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        const float* row = rows + (ids != nullptr ? ids[i] : i) * stride;
        double lane[8] = {};
        for (std::size_t d = 0; d < dim; ++d) {
            const double t = query[d] - static_cast<double>(row[d]);
            lane[d % 8] += t * t;
        }
        out[i] = reduce(lane);
    }
}

void dense_dot(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
               std::size_t stride, std::size_t dim, double* out) noexcept {
    dots(query, rows, ids, n, stride, dim, out);
}

void dense_l2(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
              std::size_t stride, std::size_t dim, double* out) noexcept {
    distances(query, rows, ids, n, stride, dim, out);
}

void dense_square(const float* rows, std::size_t n, std::size_t stride, std::size_t dim,
                  double* out) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        const float* row = rows + i * stride;
        double lane[8] = {};
        for (std::size_t d = 0; d < dim; ++d) {
            const double x = static_cast<double>(row[d]);
            lane[d % 8] += x * x;
        }
        out[i] = reduce(lane);
    }
}

void dense_cosines(double query_square, const double* squares, std::size_t n, double* scores) noexcept {
    common::cosines(query_square, squares, n, scores);
}

void dense_dot_tile(const double* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                    std::size_t dim, double* out, std::size_t out_stride) noexcept {
    for (std::size_t q = 0; q < n_queries; ++q)
        dense_dot(queries + q * dim, rows, nullptr, n_rows, dim, dim, out + q * out_stride);
}

void dense_l2_tile(const double* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                   std::size_t dim, double* out, std::size_t out_stride) noexcept {
    for (std::size_t q = 0; q < n_queries; ++q)
        dense_l2(queries + q * dim, rows, nullptr, n_rows, dim, dim, out + q * out_stride);
}

// Sixteen running sums, which the compiler keeps in vectors.
void dense_float(const float* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                 std::size_t dim, float* out, std::size_t out_stride) noexcept {
    const std::size_t whole = dim & ~std::size_t{15};
    for (std::size_t q = 0; q < n_queries; ++q)
        for (std::size_t r = 0; r < n_rows; ++r) {
            const float* const query = queries + q * dim;
            const float* const row = rows + r * dim;
            float lane[16] = {};
            for (std::size_t d = 0; d < whole; d += 16)
                for (std::size_t l = 0; l < 16; ++l) lane[l] += query[d + l] * row[d + l];
            for (std::size_t d = whole; d < dim; ++d) lane[d - whole] += query[d] * row[d];
            for (std::size_t width = 8; width > 0; width /= 2)
                for (std::size_t l = 0; l < width; ++l) lane[l] += lane[l + width];
            out[q * out_stride + r] = lane[0];
        }
}

void dense_dot_64(const double* query, const double* rows, const double* factors, const std::uint32_t* ids,
                  std::size_t n, std::size_t dim, double* out) noexcept {
    common::rows64<false>(query, rows, factors, ids, n, dim, out);
}

void dense_l2_64(const double* query, const double* rows, const double* factors, const std::uint32_t* ids,
                 std::size_t n, std::size_t dim, double* out) noexcept {
    common::rows64<true>(query, rows, factors, ids, n, dim, out);
}

}  // namespace gnomon::scalar
